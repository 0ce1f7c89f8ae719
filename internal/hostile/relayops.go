package hostile

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
)

// relayOps lists what peers of a relay may do. In A, the two lowest bits mostly name
// the circuit, and 0x10 its second hop. The function of each row describes B and C.
var relayOps = table[*relayWorld]{
	opEnd:  {"end", (*relayWorld).doEnd},
	opWait: {"wait", func(w *relayWorld, i Insn) { later(pick(waits, i.A)) }},
	{"link", func(w *relayWorld, i Insn) { w.linkTo(i.A) }},
	{"create", (*relayWorld).doCreate},
	{"begin", (*relayWorld).doBegin},
	{"begin-dir", (*relayWorld).doBeginDir},
	{"data", (*relayWorld).doData},
	{"sendme", func(w *relayWorld, i Insn) { w.each(i, i.C, func(e *end) []byte { return e.sendme(hopOf(i.A), i.B) }) }},
	{"stream-sendme", func(w *relayWorld, i Insn) { w.message(i, cell.RelaySendme, pick(streams, i.B), nil, i.C) }},
	{"xon", (*relayWorld).doXon},
	{"stream-end", func(w *relayWorld, i Insn) { w.message(i, cell.RelayEnd, pick(streams, i.B), []byte{i.C}, 0) }},
	{"resolve", func(w *relayWorld, i Insn) {
		w.message(i, cell.RelayResolve, pick(streams, i.B), pick(resolves, i.C), 0)
	}},
	{"extend", (*relayWorld).doExtend},
	{"truncate", func(w *relayWorld, i Insn) { w.message(i, cell.RelayTruncate, 0, nil, 0) }},
	{"rekey", (*relayWorld).doRekey},
	{"rekey-confirm", (*relayWorld).doRekeyConfirm},
	{"conflux-link", func(w *relayWorld, i Insn) { w.message(i, cell.RelayConfluxLink, 0, confluxBody(i), 0) }},
	{"conflux-ack", func(w *relayWorld, i Insn) { w.message(i, cell.RelayConfluxLinkedAck, 0, nil, i.C) }},
	{"conflux-switch", (*relayWorld).doSwitch},
	{"message", (*relayWorld).doMessage},
	{"cell", (*relayWorld).doCell},
	{"early", func(w *relayWorld, i Insn) {
		w.each(i, i.C, func(e *end) []byte { return e.message(hopOf(i.A), true, byte(cell.RelayDrop), 0, int(i.B), nil) })
	}},
	{"long", (*relayWorld).doLong},
	{"replay", (*relayWorld).doReplay},
	{"mangle", func(w *relayWorld, i Insn) { w.mangle.set(i) }},
	{"script", func(w *relayWorld, i Insn) { w.nextOf(0).setScript(i) }},
	{"answer-now", func(w *relayWorld, i Insn) { w.nextOf(i.A).answerNow() }},
	{"next-cell", (*relayWorld).doNextCell},
	{"next-message", (*relayWorld).doNextMessage},
	{"honest", func(w *relayWorld, i Insn) { w.settle(); w.user.echo("in the midst of the attack") }},
	{"fragment", (*relayWorld).doFragment},
	{"deaf", func(w *relayWorld, i Insn) { w.linkTo(i.A).hear(i.B%2 == 1) }},
	{"garbage", (*relayWorld).doGarbage},
	{"establish-intro", (*relayWorld).doEstablishIntro},
	{"introduce", (*relayWorld).doIntroduce},
	{"establish-rendezvous", func(w *relayWorld, i Insn) { w.message(i, cell.RelayEstablishRendezvous, 0, cookie(i.B), 0) }},
	{"rendezvous", (*relayWorld).doRendezvous},
	{"junk", (*relayWorld).doJunk},
	{"pad", func(w *relayWorld, i Insn) { w.message(i, cell.RelayPaddingNegotiate, 0, padding(i.B), i.C) }},
	{"meet-and-end", (*relayWorld).doMeetAndEnd},
}

var resolves = [][]byte{[]byte("host.example\x00"), []byte("1.0.2.192.in-addr.arpa\x00"), {}, {0}, bytes.Repeat([]byte{'a'}, 300), []byte("no end")}

// each sends the cells that f makes for the circuit, count times.
func (w *relayWorld) each(i Insn, count byte, f func(e *end) []byte) {
	e := w.circ(i.A)
	if e == nil {
		return
	}
	var cells []byte
	for range pick(counts, count) {
		cells = append(cells, f(e)...)
	}
	w.send(e.p, cells, i)
}

// message sends a message count times.
func (w *relayWorld) message(i Insn, cmd cell.RelayCommand, stream uint16, body []byte, count byte) {
	w.each(i, count, func(e *end) []byte { return e.message(hopOf(i.A), false, byte(cmd), stream, len(body), body) })
}

// doEnd ends an object: A is its kind, B its number.
func (w *relayWorld) doEnd(i Insn) {
	switch i.A % 6 {
	case 0: // the circuit
		if e := w.circ(i.B); e != nil {
			w.send(e.p, cell.AppendFixed(nil, e.id, cell.CmdDestroy, []byte{i.C}), i)
		}
	case 1: // the link
		if p := w.links[int(i.B)%len(w.links)]; p != nil {
			p.write(nil, false) // the relay reads the joined bytes after the link has closed
			p.close()
		}
	case 2: // the next relay's links
		w.nextOf(i.B).hangUp()
	case 3: // the next relay's circuit
		n := w.nextOf(i.C)
		if e := n.end(i.B); e != nil {
			e.p.write(cell.AppendFixed(nil, e.id, cell.CmdDestroy, []byte{i.C}), false)
		}
	case 4: // the stream
		if e := w.circ(i.B); e != nil {
			w.send(e.p, e.message(0, false, byte(cell.RelayEnd), pick(streams, i.C), 1, []byte{6}), i)
		}
	case 5: // everybody
		for _, p := range w.links {
			if p != nil {
				p.close()
			}
		}
	}
}

// doCreate opens a circuit: A & 3 is its slot, A >> 2 & 3 the link, with A & 0x10 it
// uses the identifier of another circuit, with A & 0x20 a wrong one, B is the type of
// the handshake, and C its options.
func (w *relayWorld) doCreate(i Insn) {
	p := w.linkTo(i.A >> 2 & 3)
	id := uint32(1)<<31 | uint32(0x100+int(i.A)%len(w.circs)+w.generation<<8)
	w.generation++
	if old := w.circ(i.A + 1); i.A&0x10 != 0 && old != nil {
		id = old.id
	}
	if i.A&0x20 != 0 {
		id = pick([]uint32{0, id &^ (1 << 31), 1 << 31, 0xffffffff}, i.A>>6)
	}
	c := newCall(w.relay.Target, pick(types, i.B), i.C)
	e := &end{p: p, id: id, call: c}
	p.mu.Lock()
	p.circs[id] = e
	p.mu.Unlock()
	w.circs[int(i.A)%len(w.circs)] = e
	w.send(p, c.cells(id, i.C), i)
}

// doBegin opens a stream: B is its identifier, C its destination.
func (w *relayWorld) doBegin(i Insn) {
	hosts := []string{echoHost + ":80", "host.example:80", "192.0.2.1:80", "[2001:db8::1]:443", "", ":", echoHost, "refused:1", string(bytes.Repeat([]byte{'x'}, 400)) + ":1", pauseHost + ":80"}
	w.message(i, cell.RelayBegin, pick(streams, i.B), append([]byte(pick(hosts, i.C)), 0, 0, 0, 0, 0), 0)
}

// doBeginDir opens a directory stream: B is its identifier, C the first request.
func (w *relayWorld) doBeginDir(i Insn) {
	w.message(i, cell.RelayBeginDir, pick(streams, i.B), nil, 0)
	requests := []string{
		"", "GET /tor/status-vote/current/consensus-microdesc HTTP/1.0\r\n\r\n", "GET /tor/", "POST /tor/ HTTP/1.0\r\nContent-Length: 99999\r\n\r\nx",
		"\r\n\r\n", "GET /tor/keys/all HTTP/1.0\r\nAccept-Encoding: x-zstd\r\n\r\n",
	}
	if b := pick(requests, i.C); b != "" {
		w.message(i, cell.RelayData, pick(streams, i.B), []byte(b), 0)
	}
}

// doData sends DATA: B is the stream and, in its upper half, the length of the body; C
// is the number of messages.
func (w *relayWorld) doData(i Insn) {
	n := pick(lengths, i.B>>4)
	w.each(i, i.C, func(e *end) []byte {
		return e.message(hopOf(i.A), false, byte(cell.RelayData), pick(streams, i.B&15), n, bytes.Repeat([]byte{i.C}, min(n, 498)))
	})
}

// doXon sends XON or XOFF: B is the stream, C the body.
func (w *relayWorld) doXon(i Insn) {
	cmd, body := cell.RelayXon, []byte{0, 0, 0, 0, 0}
	if i.C&1 != 0 {
		cmd, body = cell.RelayXoff, []byte{0}
	}
	if i.C&2 != 0 {
		body = append(body, 0, 0, 0, 0)
		binary.BigEndian.PutUint32(body[1:], 1<<(i.C>>3))
	}
	if i.C&4 != 0 {
		body = body[:len(body)-1]
	}
	w.message(i, cmd, pick(streams, i.B), body, i.C>>4)
}

// doMessage sends any relay message: B is its command, C its stream and length.
func (w *relayWorld) doMessage(i Insn) {
	n := pick(lengths, i.C>>4)
	w.each(i, 0, func(e *end) []byte {
		return e.message(hopOf(i.A), i.A&0x20 != 0, i.B, pick(streams, i.C&15), n, make([]byte, min(n, 498)))
	})
}

// doCell sends any cell: B is its command, C its circuit and contents.
func (w *relayWorld) doCell(i Insn) {
	p := w.linkTo(i.A >> 2 & 3)
	id := uint32(0)
	if e := w.circ(i.A); e != nil {
		id = e.id
	}
	id ^= pick([]uint32{0, 1, 1 << 31, 0xffff}, i.C)
	body := bytes.Repeat([]byte{i.C >> 2 & 7}, pick([]int{cell.PayloadLen, 0, 1, 20, 100}, i.C>>5))
	w.send(p, linkCell(id, cell.Command(i.B), body), i)
}

// doLong sends a cell of variable length: B and C give the length.
func (w *relayWorld) doLong(i Insn) {
	p := w.linkTo(i.A >> 2 & 3)
	cmds := []cell.Command{cell.CmdLongCreate2, cell.CmdLongCreated2, cell.CmdVPadding, cell.CmdCerts, cell.CmdVersions}
	n := pick([]int{0, 1, 3, 4, 100, 1300, 2047, 8191, 8192, 8193, 65535}, i.B)
	body := make([]byte, n)
	if n > 4 {
		binary.BigEndian.PutUint16(body, uint16(handshake.PQHandshakeBase)+uint16(i.C&3))
		binary.BigEndian.PutUint16(body[2:], uint16(n-4-int(i.C>>7)))
	}
	w.generation++
	w.send(p, cell.AppendVar(nil, uint32(1)<<31|uint32(w.generation<<8), pick(cmds, i.C>>2&7), body), i)
}

// doReplay sends the last cells of a circuit again; B leaves some out.
func (w *relayWorld) doReplay(i Insn) {
	w.each(i, i.C, func(e *end) []byte {
		e.mu.Lock()
		defer e.mu.Unlock()
		return bytes.Join(e.sent[min(len(e.sent), int(i.B)%keepSent):], nil)
	})
}

func (w *relayWorld) nextOf(n byte) *relaySide { return w.next[int(n)%len(w.next)] }

// doNextCell makes the next relay send a cell back: B is its command, C the number.
func (w *relayWorld) doNextCell(i Insn) {
	e := w.nextOf(i.A >> 4).end(i.A & 3)
	if e == nil {
		return
	}
	cmds := []cell.Command{cell.CmdRelay, cell.CmdRelayEarly, cell.CmdCreated2, cell.CmdLongCreated2, cell.CmdCreate2, cell.CmdDestroy, cell.CmdPadding, cell.CmdNetinfo, cell.CmdVersions}
	var cells []byte
	for range pick(counts, i.C) {
		cells = append(cells, linkCell(e.id, pick(cmds, i.B), bytes.Repeat([]byte{i.C}, 509))...)
	}
	e.p.write(cells, false)
}

// doNextMessage makes the next relay send a message to the client: B is its command, C
// the number.
func (w *relayWorld) doNextMessage(i Insn) {
	e := w.nextOf(i.A >> 4).end(i.A & 3)
	if e == nil {
		return
	}
	var cells []byte
	for range pick(counts, i.C) {
		cells = append(cells, e.message(0, false, i.B, 1, 10, make([]byte, 10))...)
	}
	e.p.write(cells, false)
}

// doFragment sends one fragment of a long message: B and C select the message, the
// position and the length.
func (w *relayWorld) doFragment(i Insn) {
	cmds := []cell.RelayCommand{cell.RelayLongExtend2, cell.RelayRekeyRequest, cell.RelayRekeyConfirm, cell.RelayLongExtended2, cell.RelayRekeyReply}
	total := pick([]int{1500, 300, 32, 2048, 2049, 0, 1, 65535}, i.B>>4)
	at := pick([]int{0, 480, 960, 1440, 1, 65535}, i.C>>4)
	n := pick([]int{480, 256, 255, 32, 486, 0, 1}, i.C&15)
	b := binary.BigEndian.AppendUint16(nil, uint16(total))
	b = append(binary.BigEndian.AppendUint16(b, uint16(at)), make([]byte, n)...)
	w.each(i, 0, func(e *end) []byte {
		return e.message(hopOf(i.A), i.A&0x20 != 0, byte(pick(cmds, i.B&15)), 0, len(b), b)
	})
}

// doGarbage writes bytes that are no cells at all.
func (w *relayWorld) doGarbage(i Insn) {
	p := w.linkTo(i.A)
	rnd := rand.New(rand.NewPCG(uint64(i.B), uint64(i.C)))
	b := make([]byte, pick([]int{1, 4, 5, 513, 514, 515, 5000, 40000}, i.B))
	for n := range b {
		b[n] = byte(rnd.Uint32())
	}
	p.write(b, false)
}
