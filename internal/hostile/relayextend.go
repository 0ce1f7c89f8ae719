package hostile

import (
	"bytes"
	"math"
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
)

// doExtend asks for another hop: B & 3 is the node, B >> 2 & 3 the node whose
// identity is named instead, 0x10 to 0x80 are errors in the specifiers; C & 7 is
// the type of the handshake, and the other bits are errors in it.
func (w *relayWorld) doExtend(i Insn) {
	e := w.circ(i.A)
	if e == nil {
		return
	}
	nodes := []int{nodeHostile, nodeGood, nodeHostile2, nodeVictim}
	at := int(i.B) & 3
	node, who := nodes[at], nodes[(at+int(i.B>>2&3))%4]
	t := targetOf(who)
	t.Addrs = targetOf(node).Addrs
	typ := pick(types, i.C&7)
	opts := byte(0)
	for from, to := range map[byte]byte{0x20: optCC, 0x40: optCGO, 0x80: optOdd} {
		if i.C&from != 0 {
			opts |= to
		}
	}
	c := newCall(t, typ, opts)
	specs := t.Specs()
	if i.B&0x10 != 0 {
		zeroSpec(specs, linkspec.TypeRSA)
	}
	if i.B&0x20 != 0 {
		zeroSpec(specs, linkspec.TypeEd25519)
	}
	if i.B&0x40 != 0 {
		for n := range 40 {
			s := linkspec.Target{Addrs: []netip.AddrPort{netip.AddrPortFrom(simnet.Silent.Addr(), uint16(n+1))}}
			specs = append(specs, s.Specs()...)
		}
	}
	if i.B&0x80 != 0 {
		s := linkspec.Target{Addrs: []netip.AddrPort{netip.AddrPortFrom(simnet.Silent.Addr().Next(), 9)}}
		specs = append(s.Specs(), specs...)
	}
	m := cell.Extend2{Specs: linkspec.Append(nil, specs), Type: c.typ, Data: c.skin}
	body := m.Append(nil)
	early, long := i.C&8 == 0, isPQ(typ) != (i.C&0x10 != 0)
	hop := e.ready() - 1 - hopOf(i.A)
	if hop < 0 {
		return
	}
	e.mu.Lock()
	e.call = c
	e.mu.Unlock()
	w.extends++
	w.racing++
	if long {
		w.send(e.p, e.fragments(hop, early, cell.RelayLongExtend2, body), i)
		return
	}
	w.send(e.p, e.message(hop, early, byte(cell.RelayExtend2), 0, len(body), body), i)
}

// zeroSpec makes an identity all zeros.
func zeroSpec(specs []linkspec.Spec, typ uint8) {
	for n := range specs {
		if specs[n].Type == typ {
			specs[n].Body = make([]byte, len(specs[n].Body))
		}
	}
}

// doRekey begins a rekey: B is the parameter set, C its errors.
func (w *relayWorld) doRekey(i Insn) {
	e := w.circ(i.A)
	if e == nil {
		return
	}
	sets := []handshake.PQSet{2, 1, 3}
	ver := advertised(w.relay.Target)
	if i.C&1 != 0 {
		ver = "1"
	}
	cells := e.rekeyRequest(hopOf(i.A), pick(sets, i.B), ver)
	if n := len(cells) / cell.Len; i.C&2 != 0 && n > 0 { // only a part
		cells = cells[:(int(i.C>>2)%n)*cell.Len]
	}
	w.send(e.p, cells, i)
}

// doRekeyConfirm confirms the rekey that was answered. With B it sends a false CONFIRM.
func (w *relayWorld) doRekeyConfirm(i Insn) {
	e := w.circ(i.A)
	if e == nil {
		return
	}
	cells := e.confirm(hopOf(i.A))
	if i.B != 0 {
		cells = e.fragments(hopOf(i.A), false, cell.RelayRekeyConfirm, bytes.Repeat([]byte{i.C}, 32))
	}
	w.send(e.p, cells, i)
}

// confluxBody is the body of CONFLUX_LINK: B is the nonce, C the errors.
func confluxBody(i Insn) []byte {
	m := cell.ConfluxLink{Nonce: [32]byte{i.B & 3}, UX: cell.ConfluxUX(i.C & 7)}
	if i.C&8 != 0 { // numbers that may be forged
		m.LastSent, m.LastRecv = pick(forged, i.C>>4), pick(forged, i.C>>6)
	}
	b := m.Append(nil)
	if i.B&0x80 != 0 {
		b = b[:len(b)-1-int(i.B>>2&31)]
	}
	return b
}

// forged are numbers of messages that were sent or received on a set.
var forged = []uint64{1, 2, 5, math.MaxUint64, 3, 10, 1 << 32, 1 << 63}

// doSwitch sends CONFLUX_SWITCH; B is the number of cells that it announces.
func (w *relayWorld) doSwitch(i Insn) {
	m := cell.ConfluxSwitch{Seq: pick([]uint32{1, 2, 3, 10, 0, 20000, 0xffffffff}, i.B)}
	w.message(i, cell.RelayConfluxSwitch, 0, m.Append(nil), i.C)
}
