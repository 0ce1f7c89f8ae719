package circuit

import (
	"crypto/rand"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

var congested = HopOptions{Congestion: true, CGO: true}

// steps bring a circuit into the midst of every step of the protocol that a relay
// takes part in.
var steps = map[string]func(r *rig) *Circuit{
	"created": func(r *rig) *Circuit { return r.circuit(congested, nil) },
	"create, fast": func(r *rig) *Circuit {
		return r.circuit(HopOptions{Handshake: handshake.Fast}, nil)
	},
	"create under way": func(r *rig) *Circuit { return r.half(cell.CmdCreate2, handshake.NtorV3.SkinLen) },
	"long create under way": func(r *rig) *Circuit {
		return r.half(cell.CmdLongCreate2, handshake.PQ768.Kind().SkinLen)
	},
	"extend waits for a dial": func(r *rig) *Circuit {
		r.far = true
		c := r.circuit(congested, nil)
		r.extend(c)
		return c
	},
	"extend waits for CREATED2": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.extend(c)
		return c
	},
	"extended": func(r *rig) *Circuit {
		r.answer = func(n *nextCircuit) { _ = n.circ.SendControl(cell.CmdCreated2, []byte{0, 4, 1, 2, 3, 4}) }
		c := r.circuit(congested, nil)
		r.extend(c)
		return c
	},
	"cells for the next relay": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.extend(c)
		junk := make([]byte, cell.Len)
		_, _ = rand.Read(junk)
		cell.PutHeader(junk, 0, cell.CmdRelay)
		for range 50 {
			if err := c.home.Load().Send(junk); err != nil {
				r.t.Fatal(err)
			}
		}
		return c
	},
	"long extend begun": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.longExtend(c, 1)
		return c
	},
	"long extend waits for a dial": func(r *rig) *Circuit {
		r.far = true
		c := r.circuit(congested, nil)
		r.longExtend(c, 0)
		return c
	},
	"long extend waits for LONG_CREATED2": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.longExtend(c, 0)
		if len(r.atNext()) != 1 || r.atNext()[0].cmd != cell.CmdLongCreate2 {
			r.t.Errorf("the next relay got %d circuits", len(r.atNext()))
		}
		return c
	},
	"rekey begun": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.rekey(c, 1)
		return c
	},
	"rekey under way": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.rekey(c, 0)
		return c
	},
	"conflux linked": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.linkSet(c)
		return c
	},
	"conflux with two legs": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.linkSet(c)
		r.linkSet(r.circuit(congested, nil))
		xon(r.t, c.Last().Send, 1) // else the set goes on without the first leg
		return c
	},
	"truncated in an extend": func(r *rig) *Circuit {
		r.far = true
		c := r.circuit(congested, nil)
		r.extend(c)
		if err := c.Last().Send(cell.RelayTruncate, 0, []byte{0}); err != nil {
			r.t.Fatal(err)
		}
		synctest.Wait()
		if r.dials.Load() != 0 {
			r.t.Error("TRUNCATE leaves a dial")
		}
		return c
	},
	"truncated": func(r *rig) *Circuit {
		c := r.circuit(congested, nil)
		r.extend(c)
		if err := c.Last().Send(cell.RelayTruncate, 0, []byte{0}); err != nil {
			r.t.Fatal(err)
		}
		synctest.Wait()
		if n, _ := r.onward.Circuits(); n != 0 {
			r.t.Error("TRUNCATE leaves the next circuit")
		}
		return c
	},
}

// endings end what steps began; the circuit is the client's.
var endings = map[string]func(r *rig, c *Circuit){
	"DESTROY": func(r *rig, c *Circuit) { c.Close(cell.DestroyNone, fault.New(fault.Closed, "test")) },
	"the client's link closes": func(r *rig, c *Circuit) {
		r.client.Close(fault.New(fault.Closed, "test"))
	},
	"the next link closes": func(r *rig, c *Circuit) {
		r.beyond.Close(fault.New(fault.Closed, "test"))
		synctest.Wait()
		c.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	},
	"the next relay destroys": func(r *rig, c *Circuit) {
		for _, n := range r.atNext() {
			n.circ.Destroy(cell.DestroyFinished)
		}
		synctest.Wait()
		c.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	},
	"violation": func(r *rig, c *Circuit) {
		b := make([]byte, cell.Len)
		cell.PutHeader(b, 0, cell.CmdCreated2)
		_ = c.home.Load().Send(b)
	},
	"the relay stops": func(r *rig, c *Circuit) {
		r.server.stop()
		synctest.Wait()
		r.home.Close(fault.New(fault.Closed, "test"))
	},
}

// TestNothingIsLeft: however a circuit ends, in whatever step, the relay is left
// with nothing of it.
func TestNothingIsLeft(t *testing.T) {
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		for _, ending := range slices.Sorted(maps.Keys(endings)) {
			t.Run(step+"/"+ending, func(t *testing.T) {
				onRig(t, func(r *rig) {
					began := time.Now()
					c := steps[step](r)
					synctest.Wait()
					if n, _ := r.home.Circuits(); n == 0 {
						t.Error("the circuit ended too early: ", r.first().Err())
					}
					endings[ending](r, c)
					synctest.Wait()
					r.release()
					if left := r.left(); len(left) > 0 {
						t.Error(left)
					}
					if took := time.Since(began); took != 0 {
						t.Errorf("it took a timer of %v", took)
					}
				})
			})
		}
	}
}

// half opens a circuit whose handshake a worker is at: it ends with release.
func (r *rig) half(cmd cell.Command, n int) *Circuit {
	wait := make(chan struct{})
	r.onion = func() { <-wait }
	r.free = func() { close(wait) }
	typ := cell.HandshakeNtorV3
	if cmd == cell.CmdLongCreate2 {
		typ = handshake.PQ768.Kind().Type
	}
	m := cell.Create2{Type: typ, Data: make([]byte, n)}
	c := newCircuit(r.env(), ignorant(nil))
	home, err := r.client.Open(homeSide{c}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	c.setHome(home)
	if cmd == cell.CmdLongCreate2 {
		err = home.SendLong(cmd, m.Append(nil))
	} else {
		err = home.SendControl(cmd, m.Append(nil))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// release lets the worker of half go on.
func (r *rig) release() {
	if r.free != nil {
		r.free()
		r.free = nil
	}
}

// rekey sends the first n fragments of a REKEY_REQUEST; all, when n is 0. Nothing
// follows REPLY.
func (r *rig) rekey(c *Circuit, n int) {
	r.t.Helper()
	h := c.Last()
	ver := handshake.PQVerification(handshake.CarriageB, r.target.Proto.Versions(handshake.ProtoName))
	_, request, err := handshake.RekeyClient(rand.Reader, handshake.PQ768, *h.rekey.export, ver)
	if err != nil {
		r.t.Fatal(err)
	}
	parts, err := handshake.AppendFragments(nil, request, h.format.MaxData(false))
	if err != nil {
		r.t.Fatal(err)
	}
	if n == 0 {
		n = len(parts)
	}
	for _, p := range parts[:n] {
		if err := h.Send(cell.RelayRekeyRequest, 0, p); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// linkSet makes a client's circuit a leg of the rig's set, without an ACK.
func (r *rig) linkSet(c *Circuit) {
	r.t.Helper()
	m := cell.ConfluxLink{Nonce: [32]byte{1}}
	if err := c.Last().Send(cell.RelayConfluxLink, 0, m.Append(nil)); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	if c.Err() != nil {
		r.t.Fatal(c.Err())
	}
}
