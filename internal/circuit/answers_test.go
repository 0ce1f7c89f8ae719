package circuit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// created returns a CREATED2 of so many bytes of junk that says that it has so many.
func created(has, says int) []byte {
	m := cell.Created2{Data: make([]byte, says)}
	return append(m.Append(nil)[:2], make([]byte, has)...)
}

// TestWrongCreated: what is not the answer to a client's onionskin is a violation,
// which leaves nothing of the circuit.
func TestWrongCreated(t *testing.T) {
	pq := HopOptions{Handshake: handshake.PQ768.Kind()}
	for name, v := range map[string]struct {
		opts   HopOptions
		answer func(n *nextCircuit) error
		want   string
	}{
		"junk to CREATE_FAST":      {HopOptions{Handshake: handshake.Fast}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreatedFast, make([]byte, 40)) }, "CREATED_FAST"},
		"CREATED2 to CREATE_FAST":  {HopOptions{Handshake: handshake.Fast}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreated2, created(64, 64)) }, "answers CREATE_FAST"},
		"junk to ntor":             {HopOptions{Handshake: handshake.Ntor}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreated2, created(64, 64)) }, "ntor"},
		"too short for ntor":       {HopOptions{Handshake: handshake.Ntor}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreated2, created(63, 63)) }, "ntor"},
		"junk to ntor-v3":          {HopOptions{}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreated2, created(100, 100)) }, "ntor-v3"},
		"longer than a cell":       {HopOptions{}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreated2, created(100, 600)) }, "CREATED2"},
		"CREATED_FAST to ntor-v3":  {HopOptions{}, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreatedFast, make([]byte, 40)) }, "CREATED_FAST answers"},
		"LONG_CREATED2 to ntor-v3": {HopOptions{}, func(n *nextCircuit) error { return n.circ.SendLong(cell.CmdLongCreated2, created(100, 100)) }, "LONG_CREATED2 answers"},
		"junk to the hybrid":       {pq, func(n *nextCircuit) error { return n.circ.SendLong(cell.CmdLongCreated2, created(1200, 1200)) }, "pq768"},
		"cut off for the hybrid":   {pq, func(n *nextCircuit) error { return n.circ.SendLong(cell.CmdLongCreated2, created(900, 1200)) }, "LONG_CREATED2"},
		"CREATED2 to the hybrid":   {pq, func(n *nextCircuit) error { return n.circ.SendControl(cell.CmdCreated2, created(100, 100)) }, "CREATED2 answers"},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.mute = true
				r.answer = func(n *nextCircuit) {
					if err := v.answer(n); err != nil {
						t.Error(err)
					}
				}
				c, err := Create(r.t.Context(), r.env(), r.client, r.target, v.opts)
				if c != nil || !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), v.want) || !strings.Contains(err.Error(), "hop 1") {
					t.Errorf("%v (%v); want %q", err, fault.KindOf(err), v.want)
				}
				r.nothingLeft(name)
			})
		})
	}
}

// TestWrongAnswers: an answer to what a client asked that is not right, and one to
// what it did not ask, end the circuit, and the wait with it.
func TestWrongAnswers(t *testing.T) {
	extend := func(o HopOptions) func(context.Context, *rig, *Circuit) error {
		return func(ctx context.Context, r *rig, c *Circuit) error { return c.Extend(ctx, r.next, o) }
	}
	rekey := func(ctx context.Context, _ *rig, c *Circuit) error { return c.Last().Rekey(ctx, handshake.PQ768) }
	link := func(ctx context.Context, r *rig, c *Circuit) error { return linkBoth(ctx, c, r.other) }
	// on answers one message by others, once it is whole.
	on := func(asked cell.RelayCommand, answer func(h *Hop, m cell.RelayMsg) error) func(*Hop, cell.RelayMsg) error {
		return func(h *Hop, m cell.RelayMsg) error {
			if m.Cmd != asked {
				return nil
			}
			if asked == cell.RelayLongExtend2 || asked == cell.RelayRekeyRequest {
				if whole, err := h.long.fragments.Add(h.Now(), m.Data); err != nil || whole == nil {
					return err
				}
			}
			return answer(h, m)
		}
	}
	send := func(cmd cell.RelayCommand, body []byte) func(*Hop, cell.RelayMsg) error {
		return func(h *Hop, _ cell.RelayMsg) error { return h.Send(cmd, 0, body) }
	}
	long := func(cmd cell.RelayCommand, n int) func(*Hop, cell.RelayMsg) error {
		return func(h *Hop, _ cell.RelayMsg) error { return h.sendMeta(cmd, make([]byte, n), false) }
	}
	twice := func(f func(*Hop, cell.RelayMsg) error) func(*Hop, cell.RelayMsg) error {
		return func(h *Hop, m cell.RelayMsg) error {
			if err := f(h, m); err != nil {
				return err
			}
			return f(h, m)
		}
	}
	linked := func(change func(*cell.ConfluxLink)) func(*Hop, cell.RelayMsg) error {
		return on(cell.RelayConfluxLink, func(h *Hop, m cell.RelayMsg) error {
			l, err := cell.ParseConfluxLink(m.Data)
			if err != nil {
				return err
			}
			change(&l)
			return h.Send(cell.RelayConfluxLinked, 0, l.Append(nil))
		})
	}
	pq := HopOptions{Handshake: handshake.PQ768.Kind()}
	for name, v := range map[string]struct {
		do   func(ctx context.Context, r *rig, c *Circuit) error
		say  func(h *Hop, m cell.RelayMsg) error
		want string
	}{
		"junk in EXTENDED2":            {extend(HopOptions{}), on(cell.RelayExtend2, send(cell.RelayExtended2, created(100, 100))), "ntor-v3"},
		"EXTENDED2, cut":               {extend(HopOptions{}), on(cell.RelayExtend2, send(cell.RelayExtended2, []byte{1})), "EXTENDED2"},
		"EXTENDED2 twice":              {extend(HopOptions{}), on(cell.RelayExtend2, twice(send(cell.RelayExtended2, created(100, 100)))), "extend circuit: hop 2"},
		"LONG_EXTENDED2 to ntor-v3":    {extend(HopOptions{}), on(cell.RelayExtend2, long(cell.RelayLongExtended2, 1200)), "unexpected LONG_EXTENDED2"},
		"EXTENDED of old":              {extend(HopOptions{}), on(cell.RelayExtend2, send(cell.RelayExtended, nil)), "unexpected EXTENDED "},
		"EXTENDED2 to the hybrid":      {extend(pq), on(cell.RelayLongExtend2, send(cell.RelayExtended2, created(100, 100))), "unexpected EXTENDED2"},
		"junk in LONG_EXTENDED2":       {extend(pq), on(cell.RelayLongExtend2, long(cell.RelayLongExtended2, 1202)), "LONG_EXTENDED2"},
		"REKEY_REPLY to an extend":     {extend(pq), on(cell.RelayLongExtend2, long(cell.RelayRekeyReply, 1200)), "REKEY_REPLY that nobody asked for"},
		"junk in REKEY_REPLY":          {rekey, on(cell.RelayRekeyRequest, long(cell.RelayRekeyReply, 1120)), "rekey"},
		"LONG_EXTENDED2 to a rekey":    {rekey, on(cell.RelayRekeyRequest, long(cell.RelayLongExtended2, 1200)), "unexpected LONG_EXTENDED2"},
		"REKEY_CONFIRM to a client":    {rekey, on(cell.RelayRekeyRequest, send(cell.RelayRekeyConfirm, make([]byte, 40))), "unexpected REKEY_CONFIRM"},
		"no fragment":                  {rekey, on(cell.RelayRekeyRequest, send(cell.RelayRekeyReply, []byte{1})), "fragment"},
		"CONFLUX_LINKED, cut":          {link, on(cell.RelayConfluxLink, send(cell.RelayConfluxLinked, []byte{1})), "CONFLUX"},
		"another set's CONFLUX_LINKED": {link, linked(func(l *cell.ConfluxLink) { l.Nonce[7]++ }), "another set"},
		"numbers of another set":       {link, linked(func(l *cell.ConfluxLink) { l.LastSent = 1 }), "do not exist"},
		"CONFLUX_LINKED_ACK":           {link, on(cell.RelayConfluxLink, send(cell.RelayConfluxLinkedAck, nil)), "unexpected CONFLUX_LINKED_ACK"},
		"TRUNCATED, cut":               {link, on(cell.RelayConfluxLink, send(cell.RelayTruncated, nil)), "TRUNCATED"},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				answered := false
				r.say = func(h *Hop, m cell.RelayMsg) {
					// The client has gone by the second answer.
					if err := v.say(h, m); err != nil && (!answered || !fault.Is(err, fault.Closed)) {
						t.Error(err)
					}
					answered = true
				}
				var all []*Circuit
				for range 2 {
					c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, c)
				}
				c := all[0]
				r.other = all[1]
				err := v.do(r.t.Context(), r, c)
				synctest.Wait()
				if !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error()+" ", v.want) {
					t.Errorf("%v (%v); want %q", err, fault.KindOf(err), v.want)
				}
				if !fault.Is(c.Err(), fault.Protocol) {
					t.Errorf("the circuit: %v", c.Err())
				}
				r.other.Close(cell.DestroyNone, nil)
				r.nothingLeft(name, all...)
			})
		})
	}
}
