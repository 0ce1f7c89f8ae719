package hostile

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
)

// end is the hostile end of one circuit: of a client, with all hops that it has
// extended to, or of a relay, whose only hop is the client. It encrypts messages
// correctly, but their content is whatever the program chooses.
type end struct {
	p  *peer
	id uint32

	mu   sync.Mutex // guards what follows; held for computing only
	hops []*hop
	dead bool     // DESTROY was received
	sent [][]byte // the latest cells, for replays
	call *call    // the answer that is awaited; nil when none is
	seen []uint16 // identifiers of the streams that the other end opened
	// The last requests of the client to a relay's end.
	extend []byte // the body of EXTEND2
	link   []byte // of CONFLUX_LINK
	wants  []byte // REQUEST of a rekey
}

// sealer and opener are a hop's two directions, of either role.
type sealer interface {
	Originate(cmd cell.Command, p *[cell.PayloadLen]byte)
	Encrypt(cmd cell.Command, p *[cell.PayloadLen]byte)
	Tag() []byte
}

type opener interface {
	Open(cmd cell.Command, p *[cell.PayloadLen]byte) bool
	Tag() []byte
}

// hop is the other end of a layer.
type hop struct {
	seal   sealer
	open   opener
	format cell.RelayFormat
	export [32]byte // the secret from which a rekey starts
	kh     [20]byte // shared with the other end
	cgo    bool

	inc  int      // DATA cells that one SENDME acknowledges
	got  int      // DATA cells since the last one that is due
	tags [][]byte // the tags of SENDMEs that are due but were not sent

	parts   handshake.Reassembly
	rekey   *handshake.RekeyState
	confirm func() []byte // seals the CONFIRM that is due; nil when none is
	after   func()        // installs the keys that wait for CONFIRM; nil: there are none
}

const keepSent = 8

// message seals one relay message for a hop. length is the length in the header;
// the body is cut if it is too long. It returns nil if the hop does not exist yet.
func (e *end) message(at int, early bool, cmd byte, stream uint16, length int, body []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) {
		return nil
	}
	return e.sealLocked(at, early, cmd, stream, length, body)
}

func (e *end) sealLocked(at int, early bool, cmd byte, stream uint16, length int, body []byte) []byte {
	h := e.hops[at]
	cc := cell.CmdRelay
	if early {
		cc = cell.CmdRelayEarly
	}
	c := make([]byte, cell.Len)
	cell.PutHeader(c, e.id, cc)
	p := cell.Payload(c)
	if h.format == cell.RelayV0 {
		p[0] = cmd
		binary.BigEndian.PutUint16(p[3:], stream)
		binary.BigEndian.PutUint16(p[9:], uint16(length))
		copy(p[11:], body)
	} else {
		p[16] = cmd
		binary.BigEndian.PutUint16(p[17:], uint16(length))
		off := 19
		if cell.RelayCommand(cmd).WantsStream() {
			binary.BigEndian.PutUint16(p[off:], stream)
			off += 2
		}
		copy(p[off:], body)
	}
	h.seal.Originate(cc, p)
	for i := at - 1; i >= 0; i-- {
		e.hops[i].seal.Encrypt(cc, p)
	}
	e.noteLocked(c)
	return c
}

func (e *end) noteLocked(c []byte) {
	if e.sent = append(e.sent, bytes.Clone(c)); len(e.sent) > keepSent {
		e.sent = e.sent[1:]
	}
}

// fragments seals a message in fragments.
func (e *end) fragments(at int, early bool, cmd cell.RelayCommand, msg []byte) (cells []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) {
		return nil
	}
	return e.fragmentsLocked(at, early, cmd, msg)
}

func (e *end) fragmentsLocked(at int, early bool, cmd cell.RelayCommand, msg []byte) (cells []byte) {
	const step = 480
	for off := 0; off < len(msg) && off <= 4*handshake.MaxFragmented; off += step {
		part := msg[off:min(off+step, len(msg))]
		f := binary.BigEndian.AppendUint16(nil, uint16(len(msg)))
		f = append(binary.BigEndian.AppendUint16(f, uint16(off)), part...)
		cells = append(cells, e.sealLocked(at, early && off == 0, byte(cmd), 0, len(f), f)...)
	}
	return cells
}

// take handles a cell for the circuit.
func (e *end) take(cmd cell.Command, body []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case cmd == cell.CmdDestroy:
		e.dead = true
	case cmd.IsCreated():
		e.answeredLocked(len(e.hops) == 0, body)
	case cmd == cell.CmdRelay || cmd == cell.CmdRelayEarly:
		p := (*[cell.PayloadLen]byte)(bytes.Clone(body))
		for at, h := range e.hops {
			if h.open.Open(cmd, p) {
				if m, err := h.format.Parse(p); err == nil {
					e.messageLocked(at, m)
				}
				return
			}
		}
	}
}

func (e *end) messageLocked(at int, m cell.RelayMsg) {
	h := e.hops[at]
	if m.Cmd.Has(cell.Opens) {
		e.seen = append(e.seen, m.Stream)
	}
	if m.Cmd.Has(cell.Fragment) {
		whole, err := h.parts.Add(now(), m.Data)
		if err != nil || whole == nil {
			return
		}
		m.Data = whole
	}
	switch m.Cmd {
	case cell.RelayData:
		if h.got++; h.inc > 0 && h.got%h.inc == 0 {
			h.tags = append(h.tags, bytes.Clone(h.open.Tag()))
		}
	case cell.RelayExtended2, cell.RelayLongExtended2:
		e.answeredLocked(at == len(e.hops)-1, m.Data)
	case cell.RelayExtend2, cell.RelayLongExtend2:
		e.extend = bytes.Clone(m.Data)
	case cell.RelayConfluxLink:
		e.link = bytes.Clone(m.Data)
	case cell.RelayRekeyReply, cell.RelayRekeyRequest, cell.RelayRekeyConfirm:
		e.rekeyedLocked(at, m.Cmd, m.Data)
	case cell.RelayTruncated:
		e.hops = e.hops[:at+1]
	}
}

// answeredLocked handles the answer to a handshake, and adds a hop if the answer is
// valid.
func (e *end) answeredLocked(fits bool, body []byte) {
	c := e.call
	if c == nil || !fits {
		return
	}
	e.call = nil
	if h, err := c.finish(body); err == nil {
		e.hops = append(e.hops, h)
	}
}

// ready reports how many hops there are.
func (e *end) ready() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.hops)
}

// sendme returns a SENDME that is due at a hop, or one that is not due.
func (e *end) sendme(at int, kind byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) {
		return nil
	}
	h := e.hops[at]
	tag := bytes.Repeat([]byte{7}, 20)
	if h.cgo {
		tag = tag[:16]
	}
	if kind%8 < 5 { // mostly true ones
		if len(h.tags) == 0 {
			return nil
		}
		tag, h.tags = h.tags[0], h.tags[1:]
	}
	sm := cell.Sendme{Version: 1, Tag: tag}
	b := sm.Append(nil)
	switch kind % 8 {
	case 6:
		b = nil
	case 7:
		b = b[:len(b)-1]
	}
	return e.sealLocked(at, false, byte(cell.RelaySendme), 0, len(b), b)
}
