package circuit

import (
	"bytes"
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
)

// kemEnds is the two ends of a virtual hop before either has it, and what carriage H
// needs.
type kemEnds struct {
	client, service *Circuit
	ck, sk          handshake.KeyStream
	key             *handshake.HSKEMKey
	kem             *handshake.HSKEMClient
	promise         *OnionPromise
	cgo             bool // the ends agreed on CGO
}

func (r *rig) kemEnds() *kemEnds {
	r.t.Helper()
	e := new(kemEnds)
	e.client, e.service = r.spliced()
	e.ck, e.sk = r.virtualKeys()
	var err error
	if e.key, err = handshake.NewHSKEMKey(rand.Reader, ident.Ed25519ID{1}); err != nil {
		r.t.Fatal(err)
	}
	if e.kem, err = handshake.HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{1}, e.key.Public()); err != nil {
		r.t.Fatal(err)
	}
	e.promise = &OnionPromise{Key: e.key, Hash: e.kem.Announcement().Hash}
	return e
}

func (e *kemEnds) serve(t *testing.T, streams StreamHandler) *Hop {
	t.Helper()
	h, err := e.service.AddVirtualHop(VirtualHop{Keys: e.sk, Service: true, SendmeInc: 31, CGO: e.cgo, Streams: streams, Promise: e.promise})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (e *kemEnds) dial(t *testing.T) *Hop {
	t.Helper()
	h, err := e.client.AddVirtualHop(VirtualHop{Keys: e.ck, SendmeInc: 31, CGO: e.cgo, KEM: e.kem})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ciphertext takes the client's ciphertext, and what the service must confirm with.
func (e *kemEnds) ciphertext(t *testing.T) (ct []byte, confirm [32]byte) {
	t.Helper()
	ct, confirm, _, err := e.kem.Finish(e.ck)
	if err != nil {
		t.Fatal(err)
	}
	return ct, confirm
}

// TestOnionKEM: both directions get other keys with no round trip: BEGIN and data go
// with the ciphertext, and nothing is delivered before the confirmation.
func TestOnionKEM(t *testing.T) {
	t.Run("tor1", func(t *testing.T) { meetByKEM(t, false) })
	t.Run("CGO", func(t *testing.T) { meetByKEM(t, true) })
}

func meetByKEM(t *testing.T, cgo bool) {
	onRig(t, func(r *rig) {
		e := r.kemEnds()
		e.cgo = cgo
		service, client := new(taker), new(taker)
		sh := e.serve(t, service)
		gate, next := make(chan struct{}), e.service.handle
		e.service.handle = func(h *Hop, m cell.RelayMsg, cc cell.Command) error {
			<-gate // until the client has been looked at
			return next(h, m, cc)
		}
		idle := e.client.Account().Used()
		ch := e.dial(t)
		if p := ch.Protection(); !p.IsZero() {
			t.Errorf("protected by %v before the confirmation", p)
		}
		if held := e.client.Account().Used() - idle; held < onionKEMCost {
			t.Errorf("%d bytes are counted while a confirmation is awaited", held)
		}
		close(gate)
		var id uint16
		if err := ch.OpenStream(func(n uint16) StreamReceiver { id = n; return client }); err != nil {
			t.Fatal(err)
		}
		if err := ch.Send(cell.RelayBegin, id, []byte(":80\x00")); err != nil {
			t.Fatal(err)
		}
		up, down := make([]byte, 300_000), make([]byte, 600_000)
		_, _ = rand.Read(up)
		_, _ = rand.Read(down)
		early, _, err := ch.SendData(NewWaiter(), id, up, batchCells)
		if err != nil || early < 10_000 {
			t.Fatal(early, err)
		}
		synctest.Wait()
		for _, c := range []*Circuit{e.client, e.service} {
			if err := c.Err(); err != nil {
				t.Fatal(err)
			}
		}
		if len(service.ports) != 1 || service.got.Len() != early {
			t.Fatalf("ports %v, %d bytes", service.ports, service.got.Len())
		}
		for _, h := range []*Hop{ch, sh} { // the first stream can open before the rekey
			if p := h.Protection(); p.String() != "pq768/H" || h.awaits != 0 {
				t.Errorf("protected by %v, waits for %v", p, h.awaits)
			}
		}
		time.Sleep(onionRekeyPause)
		synctest.Wait()
		for _, h := range []*Hop{ch, sh} {
			if p := h.Protection(); p.String() != "pq768/B" || h.awaits != 0 { // the rekey is over, too
				t.Errorf("protected by %v, waits for %v", p, h.awaits)
			}
		}
		if err := sh.Send(cell.RelayConnected, id, nil); err != nil {
			t.Fatal(err)
		}
		sendAll(t, ch, id, up[early:])
		sendAll(t, sh, id, down)
		if !bytes.Equal(service.got.Bytes(), up) || !bytes.Equal(client.got.Bytes(), down) {
			t.Errorf("%d and %d bytes came, not those that were sent", service.got.Len(), client.got.Len())
		}
		time.Sleep(2 * OnionKEMTimeout)
		if e.client.Err() != nil || e.service.Err() != nil {
			t.Error("a timer outlived the confirmation", e.client.Err(), e.service.Err())
		}
	})
}

// TestOnionCiphertextRefused: what a service refuses from a client.
func TestOnionCiphertextRefused(t *testing.T) {
	onRig(t, func(r *rig) {
		send := func(h *Hop, cmd cell.RelayCommand, body []byte) {
			t.Helper()
			// The service may have closed the circuit because of what came before.
			if err := fault.Except(fault.Closed, h.Send(cmd, 0, body)); err != nil {
				t.Fatal(err)
			}
		}
		parts := func(msg []byte) [][]byte {
			t.Helper()
			p, err := handshake.AppendFragments(nil, msg, cell.RelayV0.MaxData(false))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		flipped := func(ct []byte) []byte {
			b := bytes.Clone(ct)
			b[700] ^= 1
			return b
		}
		all := func(ch *Hop, msg []byte) {
			for _, p := range parts(msg) {
				send(ch, cell.RelayOnionCiphertext, p)
			}
		}
		for name, c := range map[string]struct {
			do   func(e *kemEnds, ch *Hop, ct []byte)
			want string
		}{
			"BEGIN before it": {func(_ *kemEnds, ch *Hop, _ []byte) {
				if err := fault.Except(fault.Closed, ch.Send(cell.RelayBegin, 7, []byte(":80\x00"))); err != nil {
					t.Fatal(err)
				}
			}, "BEGIN before ONION_CIPHERTEXT"},
			"DROP before it": {func(_ *kemEnds, ch *Hop, _ []byte) { send(ch, cell.RelayDrop, nil) }, "DROP before ONION_CIPHERTEXT"},
			"BEGIN within it": {func(_ *kemEnds, ch *Hop, ct []byte) {
				send(ch, cell.RelayOnionCiphertext, parts(ct)[0])
				if err := fault.Except(fault.Closed, ch.Send(cell.RelayBegin, 7, []byte(":80\x00"))); err != nil {
					t.Fatal(err)
				}
			}, "BEGIN before ONION_CIPHERTEXT"},
			"another hash": {func(_ *kemEnds, ch *Hop, ct []byte) { all(ch, flipped(ct)) }, "not the one that was announced"},
			"truncated":    {func(_ *kemEnds, ch *Hop, ct []byte) { all(ch, ct[:len(ct)-1]) }, "1087 bytes, not 1088"},
			"too long":     {func(_ *kemEnds, ch *Hop, ct []byte) { all(ch, append(bytes.Clone(ct), 0)) }, "1089 bytes, not 1088"},
			"out of order": {func(_ *kemEnds, ch *Hop, ct []byte) { send(ch, cell.RelayOnionCiphertext, parts(ct)[1]) }, "fragment: at 494, not 0"},
			"a repetition": {func(_ *kemEnds, ch *Hop, ct []byte) {
				p := parts(ct)[0]
				send(ch, cell.RelayOnionCiphertext, p)
				send(ch, cell.RelayOnionCiphertext, p)
			}, "fragment: at 0, not 494"},
			"on a stream":               {func(_ *kemEnds, ch *Hop, ct []byte) { _ = ch.Send(cell.RelayOnionCiphertext, 3, parts(ct)[0]) }, "ONION_CIPHERTEXT with stream ID 3"},
			"an erased key":             {func(e *kemEnds, ch *Hop, ct []byte) { e.key.Wipe(); all(ch, ct) }, "its key has been erased"},
			"the client's confirmation": {func(_ *kemEnds, ch *Hop, ct []byte) { send(ch, cell.RelayOnionConfirm, make([]byte, 36)) }, "unexpected ONION_CONFIRM from a client"},
		} {
			e := r.kemEnds()
			e.serve(t, new(taker))
			ch, err := e.client.AddVirtualHop(VirtualHop{Keys: e.ck, SendmeInc: 31})
			if err != nil {
				t.Fatal(err)
			}
			ct, _ := e.ciphertext(t)
			c.do(e, ch, ct)
			r.refused(name, e.service, c.want)
		}

		e := r.kemEnds()
		e.serve(t, new(taker))
		ch := e.dial(t)
		synctest.Wait()
		send(ch, cell.RelayOnionCiphertext, parts(make([]byte, 1088))[0])
		r.refused("a second one", e.service, "or a second one")

		e = r.kemEnds()
		e.promise = nil
		e.serve(t, new(taker))
		// The service may close the circuit before the client has sent all of it.
		if _, err := e.client.AddVirtualHop(VirtualHop{Keys: e.ck, KEM: e.kem}); fault.Except(fault.Closed, err) != nil {
			t.Fatal(err)
		}
		r.refused("unannounced", e.service, "ONION_CIPHERTEXT that was not announced")
	})
}

// TestOnionConfirmRefused: what a client refuses from a service.
func TestOnionConfirmRefused(t *testing.T) {
	onRig(t, func(r *rig) {
		fragment := func(b []byte) []byte { return append([]byte{0, byte(len(b)), 0, 0}, b...) }
		for name, c := range map[string]struct {
			do   func(sh *Hop)
			want string
		}{
			"data before it":      {func(sh *Hop) { _ = sh.Send(cell.RelayData, 7, []byte("data")) }, "DATA before ONION_CONFIRM"},
			"CONNECTED before it": {func(sh *Hop) { _ = sh.Send(cell.RelayConnected, 7, nil) }, "CONNECTED before ONION_CONFIRM"},
			"DROP before it":      {func(sh *Hop) { _ = sh.Send(cell.RelayDrop, 0, nil) }, "DROP before ONION_CONFIRM"},
			"SENDME before it":    {func(sh *Hop) { _ = sh.Send(cell.RelaySendme, 0, make([]byte, 24)) }, "SENDME before ONION_CONFIRM"},
			"a wrong one":         {func(sh *Hop) { _ = sh.Send(cell.RelayOnionConfirm, 0, fragment(make([]byte, 32))) }, "confirmation failed"},
			"a short one":         {func(sh *Hop) { _ = sh.Send(cell.RelayOnionConfirm, 0, fragment(make([]byte, 31))) }, "confirmation failed"},
			"an empty one":        {func(sh *Hop) { _ = sh.Send(cell.RelayOnionConfirm, 0, nil) }, "fragment: "},
		} {
			e := r.kemEnds()
			e.promise = nil
			sh := e.serve(t, nil)
			e.service.handle = func(*Hop, cell.RelayMsg, cell.Command) error { return nil } // a hostile service
			e.dial(t)
			synctest.Wait()
			c.do(sh)
			r.refused(name, e.client, c.want)
		}

		e := r.kemEnds()
		sh := e.serve(t, nil)
		e.dial(t)
		synctest.Wait()
		_ = sh.Send(cell.RelayOnionConfirm, 0, fragment(make([]byte, 32)))
		r.refused("a second one", e.client, "or a second one")

		ch, sh := r.virtually(31, nil)
		_ = sh.Send(cell.RelayOnionConfirm, 0, fragment(make([]byte, 32)))
		r.refused("unasked", ch.Circuit(), "ONION_CONFIRM that nobody asked for")

		r.mute = false
		c := r.circuit(congested, nil)
		c.handle = fromRelay
		_ = r.last().Hops()[0].Send(cell.RelayOnionConfirm, 0, fragment(make([]byte, 32)))
		r.refused("from a relay", c, "ONION_CONFIRM that nobody asked for")
	})
}

// TestVirtualHopOfAClosedCircuit: a hop that comes too late keeps no timer.
func TestVirtualHopOfAClosedCircuit(t *testing.T) {
	onRig(t, func(r *rig) {
		e := r.kemEnds()
		e.service.Close(cell.DestroyNone, nil)
		if _, err := e.service.AddVirtualHop(VirtualHop{Keys: e.sk, Service: true, Promise: e.promise}); err == nil {
			t.Error("a closed circuit got a hop")
		}
	})
}

// TestOnionRekeyRefused: a circuit asks for one rekey, after carriage H and with its
// parameter set, and each end finishes what it began.
func TestOnionRekeyRefused(t *testing.T) {
	onRig(t, func(r *rig) {
		request := func(h *Hop, export [32]byte, set handshake.PQSet) {
			t.Helper()
			_, req, err := handshake.RekeyClient(rand.Reader, set, export, handshake.HSRekeyVerification)
			if err != nil {
				t.Fatal(err)
			}
			if err := fault.Except(fault.Closed, h.sendMeta(cell.RelayRekeyRequest, req, false)); err != nil {
				t.Fatal(err)
			}
		}
		// A client that does all but the rekey.
		open := func() (e *kemEnds, ch *Hop) {
			e = r.kemEnds()
			e.serve(t, new(taker))
			e.client.handle = func(h *Hop, m cell.RelayMsg, cc cell.Command) error {
				if m.Cmd != cell.RelayOnionConfirm {
					return nil
				}
				h.open = h.onion.next
				h.rekey.keep(h.onion.keys)
				h.keptOnly()
				return nil
			}
			ch = e.dial(t)
			synctest.Wait()
			if err := e.service.Err(); err != nil {
				t.Fatal(err)
			}
			return e, ch
		}
		e, ch := open()
		request(ch, *ch.rekey.export, handshake.PQ512)
		r.refused("another set", e.service, "parameter set 1")
		e, ch = open()
		request(ch, [32]byte{1}, handshake.PQ768)
		r.refused("another secret", e.service, "authentication failed")
		e, ch = open()
		request(ch, *ch.rekey.export, handshake.PQ768)
		request(ch, *ch.rekey.export, handshake.PQ768)
		r.refused("two", e.service, "cannot be rekeyed, or is being")
		e, ch = open()
		_ = ch.Send(cell.RelayRekeyConfirm, 0, make([]byte, 36))
		r.refused("a confirmation of nothing", e.service, "REKEY_CONFIRM without REKEY_REQUEST")
		e, ch = open()
		request(ch, *ch.rekey.export, handshake.PQ768)
		time.Sleep(OnionKEMTimeout)
		synctest.Wait()
		if err := e.service.Err(); !fault.Is(err, fault.Timeout) {
			t.Errorf("no confirmation: %v", err)
		}

		e = r.kemEnds()
		e.serve(t, nil)
		ch = e.dial(t)
		time.Sleep(onionRekeyPause)
		synctest.Wait()
		request(ch, *ch.rekey.export, handshake.PQ768)
		r.refused("a second one", e.service, "REKEY_REQUEST that was not due")

		ch, sh := r.virtually(31, nil)
		request(ch, [32]byte{}, handshake.PQ768)
		r.refused("without carriage H", sh.Circuit(), "REKEY_REQUEST that was not due")

		e = r.kemEnds() // a service that does not answer
		e.serve(t, nil)
		e.service.handle = func(h *Hop, m cell.RelayMsg, cc cell.Command) error {
			if m.Cmd == cell.RelayRekeyRequest {
				return nil
			}
			return fromRelay(h, m, cc)
		}
		ch = e.dial(t)
		time.Sleep(onionRekeyPause)
		synctest.Wait()
		st := ch.rekey.doing.client
		if p := ch.Protection(); p.String() != "pq768/H" || st == nil {
			t.Errorf("protected by %v", p)
		}
		time.Sleep(OnionKEMTimeout)
		synctest.Wait()
		if err := e.client.Err(); !fault.Is(err, fault.Timeout) {
			t.Errorf("no reply: %v", err)
		}
		if _, _, err := st.Finish(make([]byte, 1120)); !fault.Is(err, fault.Local) {
			t.Errorf("the secrets of a rekey that failed are still there: %v", err)
		}
	})
}

// TestOnionRekeyOfAClosedCircuit: a circuit that closes before its rekey keeps no timer and
// makes no secrets.
func TestOnionRekeyOfAClosedCircuit(t *testing.T) {
	onRig(t, func(r *rig) {
		e := r.kemEnds()
		e.serve(t, nil)
		ch := e.dial(t)
		synctest.Wait()
		e.client.Close(cell.DestroyNone, nil)
		time.Sleep(2 * onionRekeyPause)
		synctest.Wait()
		if err := ch.requestRekey(handshake.HSKEMSet, handshake.HSRekeyVerification, make(chan error, 1)); !fault.Is(err, fault.Closed) {
			t.Errorf("a rekey of a closed circuit: %v", err)
		}
		if ch.rekey.doing != nil {
			t.Error("a closed circuit has secrets of a rekey")
		}
	})
}

// TestOnionKEMTimeouts: neither end waits for the other for ever.
func TestOnionKEMTimeouts(t *testing.T) {
	onRig(t, func(r *rig) {
		late := func(name string, c *Circuit, after time.Duration) {
			t.Helper()
			time.Sleep(after - time.Second)
			synctest.Wait()
			if err := c.Err(); err != nil {
				t.Errorf("%s: it ended too early: %v", name, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if err := c.Err(); !fault.Is(err, fault.Timeout) {
				t.Errorf("%s: %v", name, err)
			}
		}
		e := r.kemEnds()
		e.serve(t, nil)
		late("no ciphertext", e.service, OnionKEMTimeout)

		e = r.kemEnds()
		e.serve(t, nil)
		ch, err := e.client.AddVirtualHop(VirtualHop{Keys: e.ck})
		if err != nil {
			t.Fatal(err)
		}
		ct, _ := e.ciphertext(t)
		p, err := handshake.AppendFragments(nil, ct, cell.RelayV0.MaxData(false))
		if err != nil {
			t.Fatal(err)
		}
		if err := ch.Send(cell.RelayOnionCiphertext, 0, p[0]); err != nil {
			t.Fatal(err)
		}
		late("a part of the ciphertext", e.service, handshake.FragmentTimeout)

		e = r.kemEnds()
		e.promise = nil
		e.serve(t, nil)
		e.service.handle = func(*Hop, cell.RelayMsg, cell.Command) error { return nil }
		e.dial(t)
		late("no confirmation", e.client, OnionKEMTimeout)
	})
}
