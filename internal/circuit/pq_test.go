package circuit_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

var pqSets = []handshake.PQSet{handshake.PQ512, handshake.PQ768, handshake.PQ1024}

// transfer sends half a megabyte through the circuit and back.
func transfer(t *testing.T, c *circuit.Circuit) {
	t.Helper()
	s, err := stream.Dial(deadline(t), c.Last(), "echo", 80)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := make([]byte, 500_000)
	rand.NewChaCha8([32]byte{3}).Read(want)
	go s.Write(want)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
		t.Fatal("the echo differs", err)
	}
}

// TestCarriageA: every hop by the hybrid, with each layer and parameter set.
func TestCarriageA(t *testing.T) {
	relays := []*simnet.Relay{simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})}
	m := newClient(t)
	for _, set := range pqSets {
		for _, o := range []circuit.HopOptions{{Handshake: set.Kind()}, {Handshake: set.Kind(), Congestion: true, CGO: true}} {
			c := build(t, m, o, relays...)
			for i, h := range c.Hops() {
				if got, how := h.PostQuantum(); got != set || how != handshake.CarriageA || h.Info().Handshake != set.String() {
					t.Fatalf("hop %d: %v %c %s", i, got, how, h.Info().Handshake)
				}
			}
			transfer(t, c)
			c.Close(cell.DestroyNone, nil)
		}
	}
}

// TestCarriageB: rekeys of established hops, in any order, again and again,
// while data flows; relays between that know nothing of it.
func TestCarriageB(t *testing.T) {
	relays := []*simnet.Relay{simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})}
	m := newClient(t)
	for _, o := range []circuit.HopOptions{{}, {Congestion: true, CGO: true}} {
		c := build(t, m, o, relays...)
		s, err := stream.Dial(deadline(t), c.Last(), "echo", 80)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 4_000_000)
		rand.NewChaCha8([32]byte{4}).Read(want)
		go s.Write(want)
		done := make(chan error, 1)
		go func() {
			got := make([]byte, len(want))
			_, err := io.ReadFull(s, got)
			if err == nil && !bytes.Equal(got, want) {
				t.Error("the echo differs")
			}
			done <- err
		}()
		for round := range 3 {
			for _, i := range []int{2, 0, 1} {
				if err := c.Hops()[i].Rekey(deadline(t), pqSets[(round+i)%3]); err != nil {
					t.Fatal(round, i, err)
				}
				if got, how := c.Hops()[i].PostQuantum(); got != pqSets[(round+i)%3] || how != handshake.CarriageB {
					t.Fatal(got, how)
				}
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		transfer(t, c)
	}
}

// TestStrictOrder: each hop is rekeyed before the next extend passes it.
func TestStrictOrder(t *testing.T) {
	a, b := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	c := build(t, newClient(t), circuit.HopOptions{}, a)
	if err := c.Last().Rekey(deadline(t), handshake.PQ768); err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(deadline(t), b.Target, circuit.HopOptions{Handshake: handshake.PQ768.Kind()}); err != nil {
		t.Fatal(err)
	}
	transfer(t, c)
}

// TestStrippedAdvertisement: a client that was shown another entry than the
// relay published cannot finish, neither way: the versions are bound.
func TestStrippedAdvertisement(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	m := newClient(t)
	lie := r.Target
	var err error
	if lie.Proto, err = protover.Parse("Link=4-5 Relay=2-6 FlowCtrl=1-2 ChivePQ=2,8"); err != nil {
		t.Fatal(err)
	}
	ch, err := m.Get(deadline(t), lie)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := circuit.Create(deadline(t), env, ch, lie, circuit.HopOptions{Handshake: handshake.PQ768.Kind()}); err == nil {
		t.Fatal("carriage A finished")
	}
	c, err := circuit.Create(deadline(t), env, ch, lie, circuit.HopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Last().Rekey(deadline(t), handshake.PQ768); err == nil || c.Err() == nil {
		t.Fatal("carriage B finished", err)
	}
}

// TestPQFragmentsRefused: what a relay refuses of fragments costs the circuit.
func TestPQFragmentsRefused(t *testing.T) {
	fragment := func(total, off, n int) []byte {
		return append([]byte{byte(total >> 8), byte(total), byte(off >> 8), byte(off)}, make([]byte, n)...)
	}
	// extend is an EXTEND2 of 160 bytes, to a relay that could be there.
	extend := func(typ cell.HandshakeType) []byte {
		to := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}}
		specs := linkspec.Append(nil, to.Specs())
		m := cell.Extend2{Specs: specs, Type: typ, Data: make([]byte, 160-4-len(specs))}
		return m.Append(nil)
	}
	for name, send := range map[string]func(h *circuit.Hop) error{
		"second before first": func(h *circuit.Hop) error { return h.SendEarly(cell.RelayLongExtend2, 0, fragment(1500, 486, 486)) },
		"first not early":     func(h *circuit.Hop) error { return h.Send(cell.RelayLongExtend2, 0, fragment(1500, 0, 486)) },
		"oversize":            func(h *circuit.Hop) error { return h.SendEarly(cell.RelayLongExtend2, 0, fragment(4000, 0, 486)) },
		"tiny":                func(h *circuit.Hop) error { return h.SendEarly(cell.RelayLongExtend2, 0, fragment(1500, 0, 9)) },
		"short":               func(h *circuit.Hop) error { return h.SendEarly(cell.RelayLongExtend2, 0, []byte{1}) },
		"rekey garbage":       func(h *circuit.Hop) error { return h.Send(cell.RelayRekeyRequest, 0, fragment(300, 0, 300)) },
		"confirm unasked":     func(h *circuit.Hop) error { return h.Send(cell.RelayRekeyConfirm, 0, fragment(32, 0, 32)) },
		"reordered": func(h *circuit.Hop) error {
			if err := h.SendEarly(cell.RelayLongExtend2, 0, fragment(1500, 0, 486)); err != nil {
				return err
			}
			return h.Send(cell.RelayLongExtend2, 0, fragment(1500, 972, 486))
		},
		"truncated": func(h *circuit.Hop) error { // whole, by its own word, and yet no EXTEND2
			return h.SendEarly(cell.RelayLongExtend2, 0, fragment(300, 0, 300))
		},
		"another kind between": func(h *circuit.Hop) error {
			if err := h.SendEarly(cell.RelayLongExtend2, 0, fragment(1500, 0, 486)); err != nil {
				return err
			}
			return h.Send(cell.RelayRekeyRequest, 0, fragment(1217, 0, 486))
		},
		"classical in fragments": func(h *circuit.Hop) error {
			return h.SendEarly(cell.RelayLongExtend2, 0, append([]byte{0, 160, 0, 0}, extend(cell.HandshakeNtor)...))
		},
		"hybrid in a cell": func(h *circuit.Hop) error {
			return h.SendEarly(cell.RelayExtend2, 0, extend(handshake.PQ768.Kind().Type))
		},
		"beyond the end": func(h *circuit.Hop) error {
			if err := h.SendEarly(cell.RelayLongExtend2, 0, fragment(500, 0, 486)); err != nil {
				return err
			}
			return h.Send(cell.RelayLongExtend2, 0, fragment(500, 486, 100))
		},
		"other total": func(h *circuit.Hop) error {
			if err := h.SendEarly(cell.RelayLongExtend2, 0, fragment(1500, 0, 486)); err != nil {
				return err
			}
			return h.Send(cell.RelayLongExtend2, 0, fragment(1400, 486, 486))
		},
		"replayed part": func(h *circuit.Hop) error {
			if err := h.SendEarly(cell.RelayLongExtend2, 0, fragment(1500, 0, 486)); err != nil {
				return err
			}
			return h.Send(cell.RelayLongExtend2, 0, fragment(1500, 0, 486))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := simnet.New(t, simnet.Options{})
			c := build(t, newClient(t), circuit.HopOptions{}, r)
			if err := send(c.Last()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c.Done():
				if err := c.Err(); !strings.Contains(err.Error(), cell.DestroyProtocol.String()) {
					t.Error("not for what was sent:", err)
				}
			case <-deadline(t).Done():
				t.Fatal("the circuit lives")
			}
		})
	}
}
