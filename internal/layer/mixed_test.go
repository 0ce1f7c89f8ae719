package layer

import (
	"bytes"
	"crypto/sha3"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// kind is one relay crypto algorithm, by its constructors.
type kind struct {
	name   string
	client func(io.Reader) (*Client, error)
	relay  func(io.Reader) (*Relay, error)
}

var tor1Kind = kind{"tor1", NewTor1Client, NewTor1Relay}

var kinds = []kind{tor1Kind, {"cgo", NewCGOClient, NewCGORelay},
	rendezvousKind("tor1-sha3", NewTor1Rendezvous), rendezvousKind("cgo-rendezvous", NewCGORendezvous)}

// rendezvousKind has the service stand where a relay does.
func rendezvousKind(name string, of func(io.Reader, bool) (*Client, error)) kind {
	client := func(ks io.Reader) (*Client, error) { return of(ks, false) }
	service := func(ks io.Reader) (*Relay, error) {
		s, err := of(ks, true)
		if err != nil {
			return nil, err
		}
		return &Relay{Forward: s.Backward, Backward: s.Forward, Format: s.Format, KH: s.KH}, nil
	}
	return kind{name, client, service}
}

// keyStream gives any number of key bytes for a name.
func keyStream(name string) io.Reader {
	x := sha3.NewSHAKE256()
	x.Write([]byte(name))
	return x
}

// pairOf makes both sides of one hop.
func pairOf(t testing.TB, k kind) (*Client, *Relay) {
	t.Helper()
	return namedPair(t, k, k.name)
}

func namedPair(t testing.TB, k kind, name string) (*Client, *Relay) {
	t.Helper()
	c, err := k.client(keyStream(name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := k.relay(keyStream(name))
	if err != nil {
		t.Fatal(err)
	}
	if c.KH != r.KH || c.Format != r.Format {
		t.Fatal("the sides differ")
	}
	return c, r
}

// body clears what the algorithm owns in a payload, so that what was sent can
// be compared with what came.
func body(f cell.RelayFormat, p [cell.PayloadLen]byte) [cell.PayloadLen]byte {
	if f == cell.RelayV1 {
		clear(p[:16])
	} else {
		clear(p[recognizedOff : recognizedOff+2])
		clear(p[digestOff : digestOff+digestLen])
	}
	return p
}

// Paths of one to eight hops, each of a random kind, carry messages from the
// client to random hops and back: only the right hop recognises each, content
// and tags agree.
func TestMixedPaths(t *testing.T) {
	rnd := keyStream("mixed paths")
	roll := func(n int) int {
		var b [1]byte
		io.ReadFull(rnd, b[:])
		return int(b[0]) % n
	}
	for range 40 {
		var cs []*Client
		var rs []*Relay
		for range 1 + roll(8) {
			k := kinds[roll(len(kinds))]
			var name [8]byte
			io.ReadFull(rnd, name[:])
			c, r := namedPair(t, k, string(name[:]))
			cs, rs = append(cs, c), append(rs, r)
		}
		for range 60 {
			cmd := []cell.Command{cell.CmdRelay, cell.CmdRelayEarly}[roll(2)]
			hop := roll(len(cs))
			var p [cell.PayloadLen]byte
			io.ReadFull(rnd, p[:])
			want := body(cs[hop].Format, p)
			if roll(2) == 0 {
				cs[hop].Forward.Originate(cmd, &p)
				for i := hop - 1; i >= 0; i-- {
					cs[i].Forward.Encrypt(cmd, &p)
				}
				for i := 0; i <= hop; i++ {
					if got := rs[i].Forward.Open(cmd, &p); got != (i == hop) {
						t.Fatalf("forward to %d: hop %d recognised %v", hop, i, got)
					}
				}
				if !bytes.Equal(cs[hop].Forward.Tag(), rs[hop].Forward.Tag()) {
					t.Fatal("forward tags differ")
				}
			} else {
				rs[hop].Backward.Originate(cmd, &p)
				for i := hop - 1; i >= 0; i-- {
					rs[i].Backward.Encrypt(cmd, &p)
				}
				for i := 0; i <= hop; i++ {
					if got := cs[i].Backward.Open(cmd, &p); got != (i == hop) {
						t.Fatalf("backward from %d: hop %d recognised %v", hop, i, got)
					}
				}
				if !bytes.Equal(cs[hop].Backward.Tag(), rs[hop].Backward.Tag()) {
					t.Fatal("backward tags differ")
				}
			}
			if body(cs[hop].Format, p) != want {
				t.Fatal("content differs")
			}
		}
	}
}

// A changed bit anywhere in a cell is not recognised.
func TestTampered(t *testing.T) {
	for _, k := range kinds {
		for i := 0; i < cell.PayloadLen*8; i += 37 {
			c, r := pairOf(t, k)
			var p [cell.PayloadLen]byte
			c.Forward.Originate(cell.CmdRelay, &p)
			p[i/8] ^= 1 << (i % 8)
			if r.Forward.Open(cell.CmdRelay, &p) {
				t.Fatalf("%s: forward bit %d", k.name, i)
			}
			p = [cell.PayloadLen]byte{}
			r.Backward.Originate(cell.CmdRelay, &p)
			p[i/8] ^= 1 << (i % 8)
			if c.Backward.Open(cell.CmdRelay, &p) {
				t.Fatalf("%s: backward bit %d", k.name, i)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("it makes pools drop what they hold")
	}
	for _, k := range kinds {
		if strings.HasPrefix(k.name, "cgo") && forms[0].name == "portable" {
			t.Log("CGO's portable form allocates: the standard library's AES does, for every key")
			continue
		}
		c, r := pairOf(t, k)
		var p [cell.PayloadLen]byte
		for name, f := range map[string]func(){
			"forward": func() {
				c.Forward.Originate(cell.CmdRelay, &p)
				if !r.Forward.Open(cell.CmdRelay, &p) {
					t.Error("not recognised")
				}
			},
			"backward": func() {
				r.Backward.Originate(cell.CmdRelay, &p)
				if !c.Backward.Open(cell.CmdRelay, &p) {
					t.Error("not recognised")
				}
			},
			"pass": func() {
				p[recognizedOff] = 1 // as most cells that pass look
				c.Forward.Encrypt(cell.CmdRelay, &p)
				r.Forward.Open(cell.CmdRelay, &p)
				r.Backward.Encrypt(cell.CmdRelay, &p)
				c.Backward.Open(cell.CmdRelay, &p)
			},
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s %s: %v allocations", k.name, name, n)
			}
		}
	}
}

func BenchmarkLayer(b *testing.B) {
	for _, k := range kinds {
		run := func(name string, f func(c *Client, r *Relay, p *[cell.PayloadLen]byte)) {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				c, r := pairOf(b, k)
				var p [cell.PayloadLen]byte
				b.ReportAllocs()
				b.SetBytes(cell.PayloadLen)
				for b.Loop() {
					f(c, r, &p)
				}
			})
		}
		run("client-seal", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) { c.Forward.Originate(cell.CmdRelay, p) })
		run("client-wrap", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) { c.Forward.Encrypt(cell.CmdRelay, p) })
		run("client-peel", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) { c.Backward.Open(cell.CmdRelay, p) })
		run("relay-forward", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) { r.Forward.Open(cell.CmdRelay, p) })
		run("relay-backward", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) { r.Backward.Encrypt(cell.CmdRelay, p) })
		run("relay-seal", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) { r.Backward.Originate(cell.CmdRelay, p) })
		run("seal+open", func(c *Client, r *Relay, p *[cell.PayloadLen]byte) {
			c.Forward.Originate(cell.CmdRelay, p)
			if !r.Forward.Open(cell.CmdRelay, p) {
				b.Fatal("not recognised")
			}
		})
	}
}

// What a cell costs at a client whose circuit has three hops, with a message
// for the last, and at a relay in the middle and at the end.
func BenchmarkCircuit(b *testing.B) {
	const hops = 3
	for _, k := range kinds {
		run := func(name string, f func(cs []*Client, rs []*Relay, p *[cell.PayloadLen]byte) bool) {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				var cs []*Client
				var rs []*Relay
				for i := range hops {
					c, r := namedPair(b, k, k.name+strconv.Itoa(i))
					cs, rs = append(cs, c), append(rs, r)
				}
				var p [cell.PayloadLen]byte
				b.ReportAllocs()
				b.SetBytes(cell.PayloadLen)
				for b.Loop() {
					if !f(cs, rs, &p) {
						b.Fatal("not recognised")
					}
				}
			})
		}
		up := func(cs []*Client, p *[cell.PayloadLen]byte) {
			cs[hops-1].Forward.Originate(cell.CmdRelay, p)
			for i := hops - 2; i >= 0; i-- {
				cs[i].Forward.Encrypt(cell.CmdRelay, p)
			}
		}
		run("client-up", func(cs []*Client, _ []*Relay, p *[cell.PayloadLen]byte) bool {
			up(cs, p)
			return true
		})
		run("relays-down", func(_ []*Client, rs []*Relay, p *[cell.PayloadLen]byte) bool {
			rs[hops-1].Backward.Originate(cell.CmdRelay, p)
			for i := hops - 2; i >= 0; i-- {
				rs[i].Backward.Encrypt(cell.CmdRelay, p)
			}
			return true
		})
		// Less relays-down, what a client pays.
		run("relays+client-down", func(cs []*Client, rs []*Relay, p *[cell.PayloadLen]byte) bool {
			rs[hops-1].Backward.Originate(cell.CmdRelay, p)
			for i := hops - 2; i >= 0; i-- {
				rs[i].Backward.Encrypt(cell.CmdRelay, p)
			}
			for i := range hops {
				if cs[i].Backward.Open(cell.CmdRelay, p) {
					return i == hops-1
				}
			}
			return false
		})
		// Less client-up, what three relays pay.
		run("client+relays-up", func(cs []*Client, rs []*Relay, p *[cell.PayloadLen]byte) bool {
			up(cs, p)
			for i := range hops {
				if rs[i].Forward.Open(cell.CmdRelay, p) {
					return i == hops-1
				}
			}
			return false
		})
	}
}
