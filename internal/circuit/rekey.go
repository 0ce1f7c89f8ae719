package circuit

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// rekeyState is a hop's post-quantum rekey (docs/spec/pq-circuits.md, section
// 5), of either role. The circuit's mu guards it.
type rekeyState struct {
	export  *[32]byte // the secret from which the next rekey starts; nil: there is none
	doing   *rekeying // nil: no rekey is under way
	overdue overdue   // until the other end's next message has come, where no goroutine waits for it
}

// rekeying is a rekey under way: of a client from REQUEST to REPLY, of a relay from
// REQUEST to CONFIRM.
type rekeying struct {
	set      handshake.PQSet
	client   *handshake.RekeyState       // nil at a relay
	server   *handshake.RekeyServerState // nil at a client, and until REPLY is sent
	next     opener                      // of a relay, in use once CONFIRM came
	nextKeys handshake.KeyStream         // the source of the next export
	done     chan error                  // of a client; receives once
}

// keep stores the secret for a later rekey from a finished handshake.
func (r *rekeyState) keep(ks handshake.KeyStream) {
	if e, ok := ks.(handshake.Exporter); ok {
		if r.export == nil {
			r.export = new([32]byte)
		}
		*r.export = e.Export(handshake.RekeyExportLabel)
	}
}

// Rekey protects an established hop of a client's circuit by ML-KEM (carriage B).
// It returns when both directions use the new keys. After an error the circuit is
// destroyed.
func (h *Hop) Rekey(ctx context.Context, set handshake.PQSet) error {
	err := h.startRekey(ctx, set)
	if err != nil {
		err = fault.New(fault.KindOf(err), "rekey hop %d: %w", h.index+1, err)
		h.c.Close(cell.DestroyNone, err)
		h.wipeRekey()
	}
	return err
}

func (h *Hop) wipeRekey() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if d := h.rekey.doing; d != nil && d.client != nil {
		d.client.Wipe()
	}
}

func (h *Hop) startRekey(ctx context.Context, set handshake.PQSet) error {
	proto := h.info.Target.Proto
	if !handshake.RekeySpoken(proto) || !set.Valid() {
		return fault.New(fault.Local, "the relay does not advertise rekeying")
	}
	ver := handshake.PQVerification(handshake.CarriageB, proto.Versions(handshake.ProtoName))
	done := make(chan error, 1)
	if err := h.requestRekey(set, ver, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-h.c.Done():
		return h.c.Err()
	case <-ctx.Done():
		return fault.New(fault.Timeout, "no answer: %w", context.Cause(ctx))
	}
}

// requestRekey sends REKEY_REQUEST; done receives the result.
func (h *Hop) requestRekey(set handshake.PQSet, ver []byte, done chan error) error {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	r := &h.rekey
	if h.c.closed.Load() { // its secrets would not be wiped
		return fault.New(fault.Closed, "the circuit is closed")
	}
	if r.export == nil || r.doing != nil {
		return fault.New(fault.Local, "the hop was not made by ntor-v3, or is being rekeyed")
	}
	began := h.Now()
	st, request, err := handshake.RekeyClient(rand.Reader, set, *r.export, ver)
	if err != nil {
		return err
	}
	r.doing = &rekeying{client: st, set: set, done: done}
	h.spent += h.Now().Sub(began)
	return h.sendLongLocked(cell.RelayRekeyRequest, request)
}

// rekeyReply handles a fragment of REPLY, on home's reader: the cell after the
// last fragment uses the new keys.
func rekeyReply(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &h.rekey
	d := r.doing
	if d == nil || d.client == nil {
		return fault.New(fault.Protocol, "REKEY_REPLY that nobody asked for")
	}
	reply, err := h.reassemble(m.Cmd, m.Data)
	if err != nil || reply == nil {
		return err
	}
	began := h.Now()
	r.overdue.stop()
	confirm, ks, err := d.client.Finish(reply)
	r.doing = nil
	if err != nil {
		return err
	}
	k, err := h.makeKeys(ks)
	if err != nil {
		return err
	}
	h.spent += h.Now().Sub(began)
	h.open = k.open
	if err := h.sendLongLocked(cell.RelayRekeyConfirm, confirm); err != nil {
		return err
	}
	h.seal = k.seal
	h.info.PQ, h.info.Carriage = d.set, handshake.CarriageB
	r.keep(ks)
	d.done <- nil
	return nil
}

// rekeyRequest handles a fragment of REQUEST at a relay; the post-quantum workers
// do the computation.
func rekeyRequest(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	request, err := h.rekeyAsked(m.Data)
	if err != nil || request == nil {
		return err
	}
	h.c.server.s.enqueue(onionJob{c: h.c, cost: handshake.CostMLKEM, hop: h, skin: request, at: h.Now()})
	return nil
}

// rekeyAsked adds a fragment of REQUEST and returns REQUEST once it is complete.
// From then until CONFIRM the hop accepts no other REQUEST, however long the
// workers need: each one costs them an encapsulation.
func (h *Hop) rekeyAsked(fragment []byte) (request []byte, err error) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	r := &h.rekey
	if r.export == nil || r.doing != nil {
		return nil, fault.New(fault.Protocol, "REKEY_REQUEST on a hop that cannot be rekeyed, or is being")
	}
	request, err = h.reassemble(cell.RelayRekeyRequest, fragment)
	if request != nil {
		r.doing = new(rekeying)
	}
	return request, err
}

// serveRekey computes the answer to REQUEST on a worker.
func (s *Server) serveRekey(h *Hop, request []byte) (answer func() error, err error) {
	return h.answerRekey(request, s.relay().PQVerifications(handshake.CarriageB), handshake.FragmentTimeout)
}

// answerRekey computes the answer to REQUEST, and returns the function that sends it.
// Backward cells use the new keys from the first one after REPLY. CONFIRM must come
// within the limit.
func (h *Hop) answerRekey(request []byte, verifications [][]byte, limit time.Duration) (answer func() error, err error) {
	c := h.c
	c.mu.Lock()
	r := &h.rekey
	export := *r.export
	c.mu.Unlock()
	st, reply, ks, err := handshake.RekeyServer(rand.Reader, export, verifications, request)
	if err != nil {
		return nil, err
	}
	k, err := h.makeKeys(ks)
	if err != nil {
		return nil, err
	}
	set := handshake.PQSet(request[0])
	return func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed.Load() {
			return nil
		}
		r.doing = &rekeying{server: st, next: k.open, nextKeys: ks, set: set}
		r.overdue.startFor(h, cell.RelayRekeyConfirm.String(), limit)
		if err := h.sendLongLocked(cell.RelayRekeyReply, reply); err != nil {
			return err
		}
		h.seal = k.seal
		return nil
	}, nil
}

// rekeyConfirm handles CONFIRM at a relay, on home's reader: the cell after it
// uses the new keys.
func rekeyConfirm(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &h.rekey
	d := r.doing
	if d == nil || d.server == nil {
		return fault.New(fault.Protocol, "REKEY_CONFIRM without REKEY_REQUEST")
	}
	confirm, err := h.reassemble(m.Cmd, m.Data)
	if err != nil || confirm == nil {
		return err
	}
	if err := d.server.Confirm(confirm); err != nil {
		return err
	}
	r.overdue.stop()
	h.open = d.next
	h.info.PQ, h.info.Carriage = d.set, handshake.CarriageB
	r.keep(d.nextKeys)
	r.doing = nil
	return nil
}
