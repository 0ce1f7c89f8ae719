package circuit

import (
	"crypto/subtle"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// This file is carriage H (docs/spec/pq-onions.md): the ML-KEM secret that an onion
// service and its client add to the keys of their virtual hop.

// OnionKEMTimeout is how long each end waits for what the other must send.
const OnionKEMTimeout = 30 * time.Second

// OnionPromise is the ciphertext that a client has announced to an onion service.
type OnionPromise struct {
	Key  *handshake.HSKEMKey // the service's
	Hash [32]byte
}

// onionKEM is what one end of a virtual hop waits for. home's reader owns it.
type onionKEM struct {
	promise *OnionPromise                   // of a service, until it is kept
	hs      handshake.KeyStream             // of a service: hs-ntor's
	confirm [handshake.HSKEMConfirmLen]byte // of a client: what must come
	next    opener                          // of a client: in use once it came
	keys    handshake.KeyStream             // of a client: what next is from
	overdue overdue
}

// onionKEMCost is what an end counts on its circuit's account while it waits, in
// bytes: the keys, a timer, and what the message is put together in.
const onionKEMCost = 2048

// expectCiphertext makes a service's hop take nothing but what the client has
// promised.
func (h *Hop) expectCiphertext(hs handshake.KeyStream, p *OnionPromise) {
	h.onion.promise, h.onion.hs = p, hs
	h.expectOnly(cell.RelayOnionCiphertext)
}

// expectOnly makes the hop refuse every message but one.
func (h *Hop) expectOnly(cmd cell.RelayCommand) {
	h.awaits = cmd
	h.c.Account().Reserve(onionKEMCost)
	h.onion.overdue.startFor(h, cmd.String(), OnionKEMTimeout)
}

// keptOnly ends expectOnly.
func (h *Hop) keptOnly() {
	h.awaits = 0
	h.onion.overdue.stop()
	h.c.Account().Release(onionKEMCost)
}

// sendCiphertextLocked sends a client's ciphertext. The cell after it uses the new keys, and
// so does what comes after the confirmation. The caller holds the circuit's mu.
func (h *Hop) sendCiphertextLocked(hs handshake.KeyStream, kem *handshake.HSKEMClient) error {
	began := h.Now()
	ct, confirm, ks, err := kem.Finish(hs)
	if err != nil {
		return err
	}
	k, err := h.makeKeys(ks)
	if err != nil {
		return err
	}
	h.spent += h.Now().Sub(began)
	h.onion.confirm, h.onion.next, h.onion.keys = confirm, k.open, ks
	h.expectOnly(cell.RelayOnionConfirm)
	if err := h.sendLongLocked(cell.RelayOnionCiphertext, ct); err != nil {
		return err
	}
	h.seal = k.seal
	h.c.Channel().LetRun() // BEGIN comes next
	return nil
}

// onionCiphertext handles a fragment of a ciphertext at an onion service, on home's
// reader: the cell after the last one uses the new keys. A circuit can ask for one
// decapsulation, which costs less than the introduction before it.
func onionCiphertext(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	o := h.onion
	if o == nil || o.promise == nil {
		return fault.New(fault.Protocol, "ONION_CIPHERTEXT that was not announced, or a second one")
	}
	ct, err := h.reassemble(m.Cmd, m.Data)
	if err != nil || ct == nil {
		return err
	}
	confirm, ks, err := o.promise.Key.Finish(o.hs, o.promise.Hash, ct)
	if err != nil {
		return err
	}
	k, err := h.makeKeys(ks)
	if err != nil {
		return err
	}
	o.promise, o.hs = nil, nil
	h.keptOnly()
	h.open = k.open
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := h.sendLongLocked(cell.RelayOnionConfirm, confirm[:]); err != nil {
		return err
	}
	h.seal = k.seal
	c.Channel().LetRun() // BEGIN may have come with it
	h.protectLocked(ks)
	return nil
}

// onionConfirm handles the confirmation at a client, on home's reader: the cell after
// it uses the new keys.
func onionConfirm(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	o := h.onion
	if o == nil || o.next == nil {
		return fault.New(fault.Protocol, "ONION_CONFIRM that nobody asked for, or a second one")
	}
	confirm, err := h.reassemble(m.Cmd, m.Data)
	if err != nil || confirm == nil {
		return err
	}
	if subtle.ConstantTimeCompare(o.confirm[:], confirm) != 1 {
		return fault.New(fault.Protocol, "the onion service's confirmation failed")
	}
	h.open = o.next
	ks := o.keys
	o.next, o.keys = nil, nil
	h.keptOnly()
	h.c.OnClose(func(error) { h.wipeRekey() })
	h.protect(ks)
	h.rekeyOnion()
	return nil
}

// onionRekeyPause is how long a client waits before it begins the rekey: meanwhile its
// first stream opens, which must not wait for seven cells and their handshake.
const onionRekeyPause = 25 * time.Millisecond

// rekeyOnion begins a client's rekey, after which the theft of the service's ML-KEM
// key does not open what was recorded (docs/spec/pq-onions.md, section 7). Nothing
// waits for it.
func (h *Hop) rekeyOnion() {
	h.rekey.overdue.after(h, onionRekeyPause, func() {
		h.rekey.overdue.startFor(h, cell.RelayRekeyReply.String(), OnionKEMTimeout)
		if err := h.requestRekey(handshake.HSKEMSet, handshake.HSRekeyVerification, make(chan error, 1)); err != nil {
			h.c.Close(cell.DestroyNone, err)
		}
	})
}

// onionRekeyRequest handles a fragment of the rekey's REQUEST at an onion service, on
// home's reader. A circuit can ask for one.
func onionRekeyRequest(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	if _, how := h.PostQuantum(); how != handshake.CarriageH {
		return fault.New(fault.Protocol, "REKEY_REQUEST that was not due")
	}
	request, err := h.rekeyAsked(m.Data)
	if err != nil || request == nil {
		return err
	}
	if request[0] != byte(handshake.HSKEMSet) {
		return fault.New(fault.Protocol, "REKEY_REQUEST with parameter set %d", request[0])
	}
	answer, err := h.answerRekey(request, [][]byte{handshake.HSRekeyVerification}, OnionKEMTimeout)
	if err != nil {
		return err
	}
	return answer()
}

func (h *Hop) protect(ks handshake.KeyStream) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.protectLocked(ks)
}

// protectLocked notes that both directions use the new keys.
func (h *Hop) protectLocked(ks handshake.KeyStream) {
	h.info.PQ, h.info.Carriage = handshake.HSKEMSet, handshake.CarriageH
	h.rekey.keep(ks)
}
