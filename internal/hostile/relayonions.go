package hostile

import (
	"bytes"
	"crypto/ed25519"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
)

// Operations of onion services and their clients on the relay.

// introKey returns one of four authentication keys of introduction points.
func introKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b & 3}, ed25519.SeedSize))
}

func introID(b byte) [32]byte { return [32]byte(introKey(b).Public().(ed25519.PublicKey)) }

// doEstablishIntro sends ESTABLISH_INTRO: B & 3 is the key, B >> 2 & 3 an error in the MAC
// or signature, B >> 4 the rate and C the burst that it asks for.
func (w *relayWorld) doEstablishIntro(i Insn) {
	w.each(i, 0, func(e *end) []byte {
		kh, ok := e.kh(hopOf(i.A))
		if !ok {
			return nil
		}
		m := cell.EstablishIntro{AuthKey: introID(i.B)}
		if rate := i.B >> 4; rate > 0 {
			d := cell.IntroDoS{RatePerSec: int64(rate - 1), BurstPerSec: int64(int8(i.C))}
			m.Exts = []cell.Ext{d.Ext()}
		}
		m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
		m.MAC[0] ^= i.B >> 2 & 1
		copy(m.Sig[:], ed25519.Sign(introKey(i.B), append([]byte(cell.EstablishIntroSigPrefix), m.AppendSigned(nil)...)))
		m.Sig[0] ^= i.B >> 3 & 1
		body := m.Append(nil)
		return e.message(hopOf(i.A), false, byte(cell.RelayEstablishIntro), 0, len(body), body)
	})
}

// doIntroduce sends INTRODUCE1: B & 3 is the service's key, C the length.
func (w *relayWorld) doIntroduce(i Insn) {
	m := cell.Introduce{AuthKey: introID(i.B)}
	n := pick([]int{200, 0, 400, 434, 435, 442}, i.C)
	w.message(i, cell.RelayIntroduce1, 0, append(m.AppendHeader(nil), make([]byte, n)...), 0)
}

// cookie returns one of four rendezvous cookies; a high b makes its length wrong.
func cookie(b byte) []byte {
	return bytes.Repeat([]byte{b & 3}, pick([]int{cell.CookieLen, cell.CookieLen, cell.CookieLen, cell.CookieLen - 1, cell.CookieLen + 1, 0}, b>>2))
}

// doRendezvous sends RENDEZVOUS1: B is the cookie, C the length of the handshake.
func (w *relayWorld) doRendezvous(i Insn) {
	n := pick([]int{148, 64, 0, 1, 468}, i.C)
	w.message(i, cell.RelayRendezvous1, 0, append(cookie(i.B), make([]byte, n)...), 0)
}

// padding returns PADDING_NEGOTIATE: B & 1 is the command, B >> 1 & 3 the machine, and
// B >> 3 its number, or, at the end, a body that is wrong.
func padding(b byte) []byte {
	m := cell.CircPaddingNegotiate{Command: cell.PaddingStart, Machine: b >> 1 & 3, Counter: uint32(b >> 3 & 7)}
	if b&1 != 0 {
		m.Command = cell.PaddingStop
	}
	switch body := m.Append(nil); {
	case b>>6 == 3:
		return body[:len(body)-1]
	case b>>6 == 2:
		body[1] = 9
		return body
	default:
		return body
	}
}

// doMeetAndEnd joins two circuits and ends one in the same moment: A is the one that
// waits, B the cookie and, in its highest bits, which one ends and how.
func (w *relayWorld) doMeetAndEnd(i Insn) {
	body := append(cookie(i.B&3), make([]byte, 148)...)
	first, second := w.circ(i.A), w.circ(i.A+1)
	if first == nil || second == nil {
		return
	}
	cells := second.message(hopOf(i.A), false, byte(cell.RelayRendezvous1), 0, len(body), body)
	ended := pick([]*end{second, first}, i.B>>7)
	if i.B&0x40 != 0 {
		cells = append(cells, linkCell(second.id, cell.CmdRelay, bytes.Repeat([]byte{i.C}, cell.PayloadLen))...)
	}
	if ended.p == second.p {
		w.send(second.p, append(cells, cell.AppendFixed(nil, ended.id, cell.CmdDestroy, []byte{i.C})...), i)
		return
	}
	second.p.write(cells, false)
	ended.p.write(cell.AppendFixed(nil, ended.id, cell.CmdDestroy, []byte{i.C}), i.Op&Joined != 0)
}

// doJunk sends cells that are for no hop: B & 1 makes them RELAY_EARLY, C is the number.
func (w *relayWorld) doJunk(i Insn) {
	cmd := cell.CmdRelay
	if i.B&1 != 0 {
		cmd = cell.CmdRelayEarly
	}
	w.each(i, i.C, func(e *end) []byte { return linkCell(e.id, cmd, bytes.Repeat([]byte{i.B | 1}, cell.PayloadLen)) })
}

// kh returns the nonce that the end shares with a hop.
func (e *end) kh(at int) (kh [20]byte, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) {
		return kh, false
	}
	return e.hops[at].kh, true
}
