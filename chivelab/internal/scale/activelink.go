package scale

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
)

// burst is how many cells of one circuit follow one another on a link of the load, as on those of Chive's relays.
const burst = 8

// cellLink is a link of active circuits. It is no channel of Chive's: the load shares the processors with the relay under load,
// and what it needs for itself, the relay cannot have. Its cells have a circuit ID and nothing else, so they come from one buffer
// and are counted where they arrive. The link handshake is Chive's, and what the relay sees are TLS records full of cells.
type cellLink struct {
	link   *channel.Link
	raw    *bulkConn
	accept func(l *cellLink, id uint32, cmd cell.Command, body []byte) error // a circuit that the relay opens; nil at a client
	wg     sync.WaitGroup

	mu          sync.Mutex // guards what follows
	more        sync.Cond  // there is something to send, or closed
	ends        map[uint32]*pathEnd
	next        uint32   // circuit ID
	control     []byte   // whole cells that go before all others
	first, last *pathEnd // ends that owe cells
	closed      bool
	cause       error // why it was closed; nil: by close
}

// startLink starts to read and write cells.
func startLink(raw *bulkConn, link *channel.Link, accept func(*cellLink, uint32, cell.Command, []byte) error) *cellLink {
	l := &cellLink{link: link, raw: raw, accept: accept, ends: map[uint32]*pathEnd{}}
	l.more.L = &l.mu
	raw.startGathering()
	l.wg.Go(func() { l.end(l.read()) })
	l.wg.Go(func() { l.end(l.write()) })
	return l
}

// close closes the link and waits for its end.
func (l *cellLink) close() {
	l.end(nil)
	l.wg.Wait()
}

// end closes the link. Circuits that are still open are lost.
func (l *cellLink) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed, l.cause = true, cause
	for _, e := range l.ends {
		e.path.lost.Store(true)
	}
	l.more.Broadcast()
	l.raw.Close()
}

// err returns why the link has ended, if it has.
func (l *cellLink) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// open adds a circuit that this end opens.
func (l *cellLink) open(e *pathEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	e.link, e.id = l, 1<<31|l.next // tor-spec: the initiator's have the high bit
	l.ends[e.id] = e
}

// join adds a circuit that the relay has opened.
func (l *cellLink) join(id uint32, e *pathEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.link, e.id = l, id
	l.ends[id] = e
}

// sendControl sends a cell before all that waits.
func (l *cellLink) sendControl(id uint32, cmd cell.Command, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.control = cell.AppendFixed(l.control, id, cmd, payload)
	l.more.Signal()
}

// owe has an end send n cells more. If it had none to send, and now has a single one, it goes before the others, as a circuit
// that was silent does on links of Chive's relays.
func (l *cellLink) owe(e *pathEnd, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.owed += n
	if e.waits {
		return
	}
	e.waits = true
	switch {
	case l.first == nil:
		l.first, l.last = e, e
		l.more.Signal()
	case n == 1:
		e.next, l.first = l.first, e
	default:
		l.last.next, l.last = e, e
	}
}

// take gives circuit IDs to the cells of a record, in bursts of those that owe some. It returns how many cells there are, and
// what goes before them.
func (l *cellLink) take(record []byte) (control []byte, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	control, l.control = l.control, nil
	for l.first != nil && n < round {
		e := l.first
		k := min(burst, e.owed, round-n)
		for range k {
			cell.SetCircID(record[n*cell.Len:], e.id)
			n++
		}
		l.first, e.next = e.next, nil
		if l.first == nil {
			l.last = nil
		}
		if e.owed -= k; e.owed == 0 {
			e.waits = false
		} else if l.first == nil {
			l.first, l.last = e, e
		} else {
			l.last.next, l.last = e, e
		}
	}
	return control, n
}

// wait waits until there is something to send. It reports whether the link is still open.
func (l *cellLink) wait() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.first == nil && len(l.control) == 0 && !l.closed {
		l.more.Wait()
	}
	return !l.closed
}

// write writes until the link is closed. The cells of relays are encrypted and look random; these are zeros, which no relay can tell
// from others before it has removed its layer or added one.
func (l *cellLink) write() error {
	var record [round * cell.Len]byte
	for i := range round {
		cell.PutHeader(record[i*cell.Len:], 0, cell.CmdRelay)
	}
	for kept := 0; ; {
		control, n := l.take(record[:])
		if n == 0 && len(control) == 0 || kept+n*cell.Len > gathered {
			if err := l.raw.flush(); err != nil {
				return err
			}
			kept = 0
		}
		if n == 0 && len(control) == 0 {
			if !l.wait() {
				return nil
			}
			continue
		}
		for _, b := range [][]byte{control, record[:n*cell.Len]} {
			if len(b) == 0 {
				continue
			}
			if _, err := l.link.Conn.Write(b); err != nil {
				return err
			}
			kept += len(b)
		}
	}
}

// read hands out cells until the link is closed.
func (l *cellLink) read() error {
	buf := make([]byte, 2*gathered)
	for n := copy(buf, l.link.Leftover); ; {
		used, err := l.handOut(buf[:n])
		if err != nil {
			return err
		}
		n = copy(buf, buf[used:n])
		k, err := l.link.Conn.Read(buf[n:])
		if err != nil {
			return err
		}
		n += k
	}
}

// handOut handles all whole cells in b, and returns how long they are.
func (l *cellLink) handOut(b []byte) (used int, err error) {
	for len(b)-used >= cell.HeaderLen {
		c := b[used:]
		id, cmd := cell.CircID(c), cell.Cmd(c)
		if cmd.IsVariable() { // padding
			if len(c) < cell.VarHeaderLen {
				break
			}
			size := cell.VarHeaderLen + int(binary.BigEndian.Uint16(c[cell.HeaderLen:]))
			if len(c) < size {
				break
			}
			used += size
			continue
		}
		if len(c) < cell.Len {
			break
		}
		run := 1
		if cmd == cell.CmdRelay {
			for h := c[cell.Len:]; len(h) >= cell.Len && cell.CircID(h) == id && cell.Cmd(h) == cmd; h = h[cell.Len:] {
				run++
			}
		}
		used += run * cell.Len
		if err := l.handle(id, cmd, c[:cell.Len], run); err != nil {
			return used, err
		}
	}
	return used, nil
}

// handle handles a run of cells with the same circuit ID and command; c is the first one.
func (l *cellLink) handle(id uint32, cmd cell.Command, c []byte, run int) error {
	l.mu.Lock()
	e := l.ends[id]
	l.mu.Unlock()
	switch {
	case cmd == cell.CmdPadding || cmd == cell.CmdPaddingNegotiate:
	case cmd == cell.CmdCreate2 && l.accept != nil && e == nil:
		return l.accept(l, id, cmd, cell.Payload(c)[:])
	case e == nil: // of a circuit that is gone
	case cmd == cell.CmdRelay:
		e.came(run)
	case cmd == cell.CmdDestroy:
		e.path.lost.Store(true)
	case cmd == cell.CmdCreatedFast && !e.far:
		select {
		case e.path.answer <- append([]byte(nil), cell.Payload(c)[:]...):
		default:
		}
	default:
		return fault.New(fault.Protocol, "an unexpected %v", cmd)
	}
	return nil
}

// linkOver makes a link of active circuits by a handshake on raw.
func linkOver(raw net.Conn, accept func(*cellLink, uint32, cell.Command, []byte) error, handshake func(net.Conn) (*channel.Link, error)) (*cellLink, error) {
	bulk := newBulkConn(raw)
	up, err := handshake(bulk)
	if err != nil {
		return nil, err
	}
	return startLink(bulk, up, accept), nil
}
