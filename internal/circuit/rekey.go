package circuit

import (
	"context"
	"crypto/rand"
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
)

// rekeyState is a hop's post-quantum rekey (docs/spec/pq-circuits.md, section
// 5), of either role. The circuit's mu guards it.
type rekeyState struct {
	export   [32]byte // the secret that the next rekey starts from
	exports  bool     // whether there is one
	asked    bool     // of a relay: REQUEST came, CONFIRM has not
	set      handshake.PQSet
	client   *handshake.RekeyState
	server   *handshake.RekeyServerState
	next     opener              // of a relay, in use once CONFIRM came
	nextKeys handshake.KeyStream // where the next export comes from
	done     chan error          // of a client; receives once
	overdue  overdue             // of a relay, until CONFIRM has come
}

// keep takes the secret for a later rekey out of a finished handshake.
func (r *rekeyState) keep(ks handshake.KeyStream) {
	if e, ok := ks.(handshake.Exporter); ok {
		r.export, r.exports = e.Export(handshake.RekeyExportLabel), true
	}
}

// sendLong sends a message in fragments; early puts the first into a
// RELAY_EARLY cell.
func (h *Hop) sendLong(cmd cell.RelayCommand, msg []byte, early bool) error {
	parts, err := handshake.AppendFragments(nil, msg, h.format.MaxData(false))
	if err != nil {
		return err
	}
	for i, f := range parts {
		cc := cell.CmdRelay
		if early && i == 0 {
			cc = cell.CmdRelayEarly
		}
		if err := h.sendCell(cc, cmd, 0, f); err != nil {
			return err
		}
	}
	return nil
}

// sendLongLocked is sendLong for a caller that holds the circuit's mu: no
// other cell comes between the fragments and what the caller does next.
func (h *Hop) sendLongLocked(cmd cell.RelayCommand, msg []byte) error {
	off := h.format.DataOffset(cmd)
	parts, err := handshake.AppendFragments(nil, msg, h.format.MaxData(false))
	if err != nil {
		return err
	}
	for _, f := range parts {
		var slot [cell.Len]byte
		p := cell.Payload(slot[:])
		if err := h.format.PutHeader(p, cmd, 0, len(f)); err != nil {
			return err
		}
		copy(p[off:], f)
		pad(p[off+len(f):])
		h.c.sealLocked(h, slot[:], cell.CmdRelay)
		if err := h.c.home.Load().Send(slot[:]); err != nil {
			return err
		}
	}
	return nil
}

// newKeys makes the layer of the hop's kind from a rekey's key material.
func newKeys[L any](ks io.Reader, kind string, tor1, cgo func(io.Reader) (*L, error)) (*L, error) {
	if kind == "cgo" {
		return cgo(ks)
	}
	return tor1(ks)
}

// Rekey protects an established hop of a client's circuit by ML-KEM (carriage
// B). It returns once both directions are under the new keys. When it fails
// the circuit is destroyed.
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
	if h.rekey.client != nil {
		h.rekey.client.Wipe()
	}
}

func (h *Hop) startRekey(ctx context.Context, set handshake.PQSet) error {
	proto := h.info.Target.Proto
	if !proto.Has(handshake.ProtoName, handshake.ProtoRekey) || !set.Valid() {
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
	case <-h.c.done:
		return h.c.Err()
	case <-ctx.Done():
		return fault.New(fault.Timeout, "no answer: %w", context.Cause(ctx))
	}
}

// requestRekey sends REKEY_REQUEST; done gets what comes of it.
func (h *Hop) requestRekey(set handshake.PQSet, ver []byte, done chan error) error {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	r := &h.rekey
	if !r.exports || r.client != nil {
		return fault.New(fault.Local, "the hop was not made by ntor-v3, or is being rekeyed")
	}
	began := h.Now()
	st, request, err := handshake.RekeyClient(rand.Reader, set, r.export, ver)
	if err != nil {
		return err
	}
	r.client, r.set, r.done = st, set, done
	h.spent += h.Now().Sub(began)
	return h.sendLongLocked(cell.RelayRekeyRequest, request)
}

// rekeyReply takes a fragment of REPLY, on home's reader: the cell after the
// last one comes under the new keys.
func (h *Hop) rekeyReply(fragment []byte) error {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &h.rekey
	if r.client == nil {
		return fault.New(fault.Protocol, "REKEY_REPLY that nobody asked for")
	}
	reply, err := h.reassemble(cell.RelayRekeyReply, fragment)
	if err != nil || reply == nil {
		return err
	}
	began := h.Now()
	confirm, ks, err := r.client.Finish(reply)
	r.client = nil
	if err != nil {
		return err
	}
	lay, err := newKeys(ks, h.info.Layer, layer.NewTor1Client, layer.NewCGOClient)
	if err != nil {
		return err
	}
	h.spent += h.Now().Sub(began)
	h.open = lay.Backward
	if err := h.sendLongLocked(cell.RelayRekeyConfirm, confirm); err != nil {
		return err
	}
	h.seal = lay.Forward
	h.info.PQ, h.info.Carriage = r.set, handshake.CarriageB
	r.keep(ks)
	r.done <- nil
	return nil
}

// rekeyRequest takes a fragment of REQUEST at a relay; the work is done by the
// post-quantum workers.
func (sh *serverHandler) rekeyRequest(h *Hop, fragment []byte) error {
	request, err := h.rekeyAsked(fragment)
	if err != nil || request == nil {
		return err
	}
	sh.s.enqueue(onionJob{c: sh.c, hop: h, skin: request, at: h.Now()})
	return nil
}

// rekeyAsked takes a fragment of REQUEST and returns that once it is whole. One
// rekey is under way at a time, from then until CONFIRM, however long the workers
// take: each REQUEST costs them an encapsulation.
func (h *Hop) rekeyAsked(fragment []byte) (request []byte, err error) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	r := &h.rekey
	if !r.exports || r.asked {
		return nil, fault.New(fault.Protocol, "REKEY_REQUEST on a hop that cannot be rekeyed, or is being")
	}
	request, err = h.reassemble(cell.RelayRekeyRequest, fragment)
	r.asked = request != nil
	return request, err
}

// serveRekey computes the answer to REQUEST, on a worker, and returns what sends
// it. Backward cells are under the new keys from the one after REPLY.
func (s *Server) serveRekey(h *Hop, request []byte) (answer func() error, err error) {
	c := h.c
	c.mu.Lock()
	r := &h.rekey
	export := r.export
	c.mu.Unlock()
	st, reply, ks, err := handshake.RekeyServer(rand.Reader, export, s.verifications(handshake.CarriageB), request)
	if err != nil {
		return nil, err
	}
	lay, err := newKeys(ks, h.info.Layer, layer.NewTor1Relay, layer.NewCGORelay)
	if err != nil {
		return nil, err
	}
	set := handshake.PQSet(request[0])
	return func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return nil
		}
		r.server, r.next, r.nextKeys, r.set = st, lay.Forward, ks, set
		r.overdue.start(h, "REKEY_CONFIRM")
		if err := h.sendLongLocked(cell.RelayRekeyReply, reply); err != nil {
			return err
		}
		h.seal = lay.Backward
		return nil
	}, nil
}

// rekeyConfirm takes CONFIRM at a relay, on home's reader: the cell after it
// comes under the new keys.
func (sh *serverHandler) rekeyConfirm(h *Hop, fragment []byte) error {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &h.rekey
	if r.server == nil {
		return fault.New(fault.Protocol, "REKEY_CONFIRM without REKEY_REQUEST")
	}
	confirm, err := h.reassemble(cell.RelayRekeyConfirm, fragment)
	if err != nil || confirm == nil {
		return err
	}
	if err := r.server.Confirm(confirm); err != nil {
		return err
	}
	r.overdue.stop()
	h.open = r.next
	h.info.PQ, h.info.Carriage = r.set, handshake.CarriageB
	r.keep(r.nextKeys)
	r.server, r.next, r.nextKeys, r.asked = nil, nil, nil, false
	return nil
}
