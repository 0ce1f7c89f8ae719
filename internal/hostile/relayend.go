package hostile

import (
	"crypto/rand"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// The answers of a hostile relay to the client's own messages.

// stream returns one of the streams that the client opened, the latest first, or an
// identifier of no stream.
func (e *end) stream(b byte) uint16 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.seen); n > 0 && b < 12 {
		return e.seen[n-1-int(b)%n]
	}
	return pick(streams, b)
}

// extended answers the last EXTEND2, as the relay that it names would: from then on
// this end plays both hops. kind selects an error in the message, ans errors in the
// handshake.
func (e *end) extended(kind, ans byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.extend == nil || len(e.hops) == 0 {
		return nil
	}
	at := len(e.hops) - 1
	m, err := cell.ParseExtend2(e.extend)
	if err != nil {
		return nil
	}
	r := bin.NewReader("EXTEND2", m.Specs)
	t, err := linkspec.TargetOf(linkspec.Read(&r))
	if err != nil {
		return nil
	}
	create := cell.Create2{Type: m.Type, Data: m.Data}
	cmd := cell.CmdCreate2
	if isPQ(m.Type) {
		cmd = cell.CmdLongCreate2
	}
	for node, k := range nodeKeys {
		if k.Link.ID.RSA != t.RSA {
			continue
		}
		reply, h, err := answerCall(k, advertised(targetOf(node)), cmd, create.Append(nil), ans)
		if err != nil {
			return nil
		}
		long := isPQ(m.Type) != (kind&1 != 0)
		if kind&2 != 0 {
			reply = binaryVec(make([]byte, pick(answerSizes, kind>>3)))
		}
		var cells []byte
		if long {
			cells = e.fragmentsLocked(at, false, cell.RelayLongExtended2, reply)
		} else {
			cells = e.sealLocked(at, false, byte(cell.RelayExtended2), 0, len(reply), reply)
		}
		if kind&4 != 0 {
			cells = append(cells, cells...)
		}
		e.hops = append(e.hops, h)
		return cells
	}
	return nil
}

// rekeyReply answers the rekey that was asked for.
func (e *end) rekeyReply(at int, advertised string, kind, c byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) {
		return nil
	}
	h := e.hops[at]
	if kind&3 == 3 || e.wants == nil {
		return e.fragmentsLocked(at, false, cell.RelayRekeyReply, make([]byte, pick([]int{1120, 800, 1600, 1, 32, 2048, 2049}, c)))
	}
	ver := [][]byte{handshake.PQVerification(handshake.CarriageB, advertised)}
	_, reply, ks, err := handshake.RekeyServer(rand.Reader, h.export, ver, e.wants)
	e.wants = nil
	if err != nil {
		return nil
	}
	if kind&3 == 1 {
		reply[int(c)%len(reply)] ^= 1
	}
	cells := e.fragmentsLocked(at, false, cell.RelayRekeyReply, reply)
	if kind&3 == 2 { // only a part
		return cells[:cell.Len*(int(c)%(len(cells)/cell.Len))]
	}
	if next, err := relayHop(ks, h.cgo, h.inc); err == nil {
		h.seal = next.seal
		h.after = func() { h.open, h.export = next.open, next.export }
	}
	return cells
}
