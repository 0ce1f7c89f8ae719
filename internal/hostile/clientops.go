package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/stream"
)

// clientOps lists what a client does and what hostile relays answer. In the relays'
// rows, A & 0x10 selects the relay, A & 3 the circuit, counted from the latest, and A &
// 0x20 the second hop, if the relay plays two hops.
var clientOps = table[*clientWorld]{
	opEnd:  {"end", (*clientWorld).doEnd},
	opWait: {"wait", func(w *clientWorld, i Insn) { later(pick(waits, i.A)) }},
	{"build", func(w *clientWorld, i Insn) { w.build(i.A, path(i.B), i.C) }},
	{"dial", (*clientWorld).doDial},
	{"write", func(w *clientWorld, i Insn) {
		w.use(i.A, toWrite, func(s *stream.Stream) { _, _ = s.Write(make([]byte, 498*pick(counts, i.B))) })
	}},
	{"read", func(w *clientWorld, i Insn) {
		w.use(i.A, toRead, func(s *stream.Stream) { _, _ = io.CopyN(io.Discard, s, int64(498*pick(counts, i.B))) })
	}},
	{"close-stream", (*clientWorld).doCloseStream},
	{"lookup", func(w *clientWorld, i Insn) {
		names := []string{"host.example", "192.0.2.1", "2001:db8::1"}
		w.deal(i.A, func(ctx context.Context, c *circuit.Circuit) { _, _ = stream.Resolve(ctx, c.Last(), pick(names, i.B)) })
	}},
	{"do-rekey", func(w *clientWorld, i Insn) {
		sets := []handshake.PQSet{handshake.PQ768, 1, 3}
		w.deal(i.A, func(ctx context.Context, c *circuit.Circuit) { _ = c.Hops()[0].Rekey(ctx, pick(sets, i.B)) })
	}},
	{"link-legs", (*clientWorld).doLinkLegs},
	{"do-extend", func(w *clientWorld, i Insn) {
		to := path(i.B)[0]
		w.deal(i.A, func(ctx context.Context, c *circuit.Circuit) {
			_ = c.Extend(ctx, to, circuit.HopOptions{Congestion: i.C&optCC != 0, CGO: i.C&optCGO != 0})
		})
	}},
	{"script", func(w *clientWorld, i Insn) { w.bad[0].setScript(i) }},
	{"script-2", func(w *clientWorld, i Insn) { w.bad[1].setScript(i) }},
	{"answer-now", func(w *clientWorld, i Insn) { w.relayOf(i.A).answerNow() }},
	{"connected", func(w *clientWorld, i Insn) {
		w.say(i, cell.RelayConnected, pick([][]byte{nil, {192, 0, 2, 1, 0, 0, 0, 60}, {1}, {0, 0, 0, 0, 6}, bytes.Repeat([]byte{9}, 25)}, i.C), 0)
	}},
	{"data", (*clientWorld).doData},
	{"sendme", func(w *clientWorld, i Insn) {
		w.tell(i, i.C, func(e *end, at int) []byte { return e.sendme(at, i.B) })
	}},
	{"stream-sendme", func(w *clientWorld, i Insn) { w.say(i, cell.RelaySendme, nil, i.C) }},
	{"xon", func(w *clientWorld, i Insn) {
		cmd, body := cell.RelayXon, []byte{0, 0, 0, 0, i.C >> 1}
		if i.C&1 != 0 {
			cmd, body = cell.RelayXoff, []byte{0}
		}
		w.say(i, cmd, body, 0)
	}},
	{"stream-end", func(w *clientWorld, i Insn) { w.say(i, cell.RelayEnd, []byte{i.C, 192, 0, 2, 1, 0, 0, 0, 9}, 0) }},
	{"resolved", func(w *clientWorld, i Insn) {
		a := []byte{byte(cell.AnswerIPv4), 4, 192, 0, 2, 1, 0, 0, 0, 60}
		w.say(i, cell.RelayResolved, bytes.Repeat(a, 1+int(i.C&15)), i.C>>4)
	}},
	{"truncated", func(w *clientWorld, i Insn) { w.say(i, cell.RelayTruncated, []byte{i.C}[:1-int(i.B>>7)], 0) }},
	{"extended", (*clientWorld).doExtended},
	{"linked", (*clientWorld).doLinked},
	{"conflux-switch", func(w *clientWorld, i Insn) {
		m := cell.ConfluxSwitch{Seq: pick([]uint32{1, 2, 3, 10, 0, 20000, 0xffffffff}, i.B)}
		w.say(Insn{A: i.A, Op: i.Op}, cell.RelayConfluxSwitch, m.Append(nil), i.C)
	}},
	{"rekey-reply", (*clientWorld).doRekeyReply},
	{"message", func(w *clientWorld, i Insn) {
		n := pick(lengths, i.C>>4)
		w.tell(i, 0, func(e *end, at int) []byte {
			return e.message(at, i.A&0x40 != 0, i.B, e.stream(i.C&15), n, make([]byte, min(n, 498)))
		})
	}},
	{"cell", func(w *clientWorld, i Insn) {
		e := w.endOf(i.A)
		if e == nil {
			return
		}
		id := e.id ^ pick([]uint32{0, 1, 1 << 31, 0xffff}, i.C)
		body := bytes.Repeat([]byte{i.C >> 2 & 7}, pick([]int{cell.PayloadLen, 0, 1, 20, 100}, i.C>>5))
		e.p.write(linkCell(id, cell.Command(i.B), body), i.Op&Joined != 0)
	}},
	{"replay", func(w *clientWorld, i Insn) {
		w.tell(i, i.C, func(e *end, _ int) []byte {
			e.mu.Lock()
			defer e.mu.Unlock()
			return bytes.Join(e.sent[min(len(e.sent), int(i.B)%keepSent):], nil)
		})
	}},
	{"deaf", func(w *clientWorld, i Insn) {
		if e := w.endOf(i.A); e != nil {
			e.p.hear(i.B%2 == 1)
		}
	}},
	{"honest", func(w *clientWorld, i Insn) { w.settle(); w.user.echo("in the midst of the attack") }},
	{"mangle", func(w *clientWorld, i Insn) { w.relayOf(i.B).mangle.set(i) }},
	{"pad", func(w *clientWorld, i Insn) {
		w.deal(i.A, func(_ context.Context, c *circuit.Circuit) { c.Pad(pick(machines, i.B)) })
	}},
	{"ask", (*clientWorld).doAsk},
	{"serve", (*clientWorld).doServe},
	{"meet", (*clientWorld).doMeet},
	{"virtual", (*clientWorld).doVirtual},
	{"padded", func(w *clientWorld, i Insn) {
		m := cell.CircPaddingNegotiated{Command: pick([]cell.PaddingCommand{cell.PaddingStart, cell.PaddingStop, 3}, i.B), OK: i.B&0x40 == 0, Machine: i.B >> 4 & 1, Counter: uint32(i.B>>2&3) + 1}
		w.say(Insn{A: i.A, Op: i.Op}, cell.RelayPaddingNegotiated, m.Append(nil), i.C)
	}},
	{"begin", func(w *clientWorld, i Insn) {
		bodies := [][]byte{[]byte(":80\x00"), []byte(":0\x00"), []byte("host:80\x00\x00\x00\x00\x00"), nil, []byte(":99999\x00")}
		w.tell(i, i.C>>4, func(e *end, at int) []byte {
			b := pick(bodies, i.C&15)
			return e.message(at, false, byte(cell.RelayBegin), pick(streams, i.B), len(b), b)
		})
	}},
	{"drop", func(w *clientWorld, i Insn) { w.say(Insn{A: i.A, Op: i.Op}, cell.RelayDrop, nil, i.C) }},
}

// tell makes a hostile relay send the cells that f makes for its end of a circuit,
// count times.
func (w *clientWorld) tell(i Insn, count byte, f func(e *end, at int) []byte) {
	e := w.endOf(i.A)
	if e == nil {
		return
	}
	var cells []byte
	for range pick(counts, count) {
		cells = append(cells, f(e, int(i.A>>5&1))...)
	}
	e.p.write(w.relayOf(i.A).mangle.apply(cells), i.Op&Joined != 0)
}

// say makes a hostile relay send a message on the stream that B names, or without a
// stream if the command has none.
func (w *clientWorld) say(i Insn, cmd cell.RelayCommand, body []byte, count byte) {
	w.tell(i, count, func(e *end, at int) []byte {
		id := uint16(0)
		if cmd.WantsStream() || cmd == cell.RelaySendme {
			id = e.stream(i.B)
		}
		return e.message(at, false, byte(cmd), id, len(body), body)
	})
}

// doEnd ends an object: A is its kind, B its number.
func (w *clientWorld) doEnd(i Insn) {
	switch i.A % 6 {
	case 0: // the client's dial
		if c := w.circ(i.B); c != nil {
			c.cancel()
		}
	case 1: // the relay's links
		w.bad[i.B%2].hangUp()
	case 2: // the relay's circuit
		if e := w.bad[i.C%2].end(i.B); e != nil {
			e.p.write(cell.AppendFixed(nil, e.id, cell.CmdDestroy, []byte{i.C}), i.Op&Joined != 0)
		}
	case 3: // the client's circuit
		if c := w.circ(i.B); c != nil {
			w.give(c)
		}
	case 4: // the client's stream
		w.use(i.B, toClose, func(s *stream.Stream) { _ = s.Close() })
	case 5: // the client's link to a hostile relay
		if c := w.circ(i.B).get(); c != nil && leads(c) && c.Channel() != w.user.circ.Channel() {
			c.Channel().Close(fault.New(fault.Closed, "the client is done"))
		}
	}
}

// doDial opens a stream: A is the circuit, B the stream's slot, C how.
func (w *clientWorld) doDial(i Insn) {
	slot := newClientStream()
	w.all = append(w.all, slot)
	w.streams[int(i.B)%len(w.streams)] = slot
	w.deal(i.A, func(ctx context.Context, c *circuit.Circuit) {
		var s *stream.Stream
		var err error
		switch i.C % 3 {
		case 0: // what is written before the answer is optimistic
			if s, err = stream.Begin(c.Last(), "host.example", 80, 0); err == nil {
				slot.mu.Lock()
				slot.s = s
				slot.mu.Unlock()
				_ = s.WaitOpen(ctx)
			}
			return
		case 1:
			s, err = stream.Dial(ctx, c.Last(), "host.example", 80)
		case 2:
			s, err = stream.BeginDir(c.Last())
		}
		if err == nil {
			slot.mu.Lock()
			slot.s = s
			slot.mu.Unlock()
		}
	})
}

// use runs a client's work on a stream, in parallel with the program.
func (w *clientWorld) use(a byte, what int, f func(s *stream.Stream)) {
	slot := w.streams[int(a)%len(w.streams)]
	s := slot.get()
	if s == nil {
		return
	}
	w.under.Go(func() {
		slot.turns[what] <- struct{}{}
		defer func() { <-slot.turns[what] }()
		if what != toClose {
			_ = s.SetDeadline(now().Add(patience / 2))
		}
		f(s)
	})
}

func (w *clientWorld) doCloseStream(i Insn) {
	w.use(i.A, toClose, func(s *stream.Stream) {
		if i.B&1 != 0 {
			_ = s.CloseWrite()
			return
		}
		_ = s.CloseReason(cell.EndReason(i.C))
	})
}

// doLinkLegs makes a set of two circuits.
func (w *clientWorld) doLinkLegs(i Insn) {
	slot, first, second := w.circ(i.A), w.circ(i.A).get(), w.circ(i.B).get()
	if first == nil || second == nil || first == second {
		return
	}
	w.under.Go(func() {
		_, _ = circuit.LinkConflux(slot.ctx, []*circuit.Circuit{first, second}, cell.ConfluxUX(i.C&7))
	})
}

// doData makes a relay send DATA: B & 15 is the stream, B >> 4 the length, C how many.
func (w *clientWorld) doData(i Insn) {
	n := pick(lengths, i.B>>4)
	w.tell(i, i.C, func(e *end, at int) []byte {
		return e.message(at, false, byte(cell.RelayData), e.stream(i.B&15), n, bytes.Repeat([]byte{i.C}, min(n, 498)))
	})
}

// doExtended answers an EXTEND2 as the next relay would: B is the kind of answer, C
// what is wrong with it.
func (w *clientWorld) doExtended(i Insn) {
	e := w.endOf(i.A)
	if e == nil {
		return
	}
	e.p.write(w.relayOf(i.A).mangle.apply(e.extended(i.B, i.C)), i.Op&Joined != 0)
}

// doLinked answers CONFLUX_LINK: B says of which circuit the nonce is, C what is
// wrong.
func (w *clientWorld) doLinked(i Insn) {
	other := w.endOf(i.A&0xfc | (i.A+i.B)&3)
	if other == nil {
		return
	}
	other.mu.Lock()
	body := bytes.Clone(other.link)
	other.mu.Unlock()
	if len(body) < 49 {
		body = make([]byte, 50)
	}
	switch i.C & 7 {
	case 1:
		body[1+int(i.C>>3)] ^= 1
	case 2:
		binary.BigEndian.PutUint64(body[33:], 1)
	case 3:
		body = body[:int(i.C>>3)]
	case 4:
		binary.BigEndian.PutUint64(body[41:], pick(forged, i.C>>3))
	}
	w.say(Insn{A: i.A, Op: i.Op}, cell.RelayConfluxLinked, body, i.C>>6)
}

// doRekeyReply answers a rekey: B is the kind of answer, C says how.
func (w *clientWorld) doRekeyReply(i Insn) {
	e := w.endOf(i.A)
	if e == nil {
		return
	}
	e.p.write(w.relayOf(i.A).mangle.apply(e.rekeyReply(int(i.A>>5&1), advertised(targetOf(nodeHostile)), i.B, i.C)), i.Op&Joined != 0)
}
