package hostile

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
)

// peer is the hostile end of a link whose handshake is done: it writes any bytes,
// and reads cells.
//
// Its locks are channels, because a bubble of virtual time does not see that a
// goroutine waits for a mutex.
type peer struct {
	link *channel.Link
	turn chan struct{} // held by the goroutine that writes
	out  []byte        // joined cells; owned by the goroutine that has the turn

	mu    sync.Mutex      // guards what follows; held for a moment only
	circs map[uint32]*end // of a dialling peer, by their identifiers

	state chan peerState // holds one value, taken out while it is used
	done  chan struct{}  // closed when the reader has ended
	// take is called with every received cell, on the reader's goroutine.
	take func(id uint32, cmd cell.Command, body []byte)
}

type peerState struct {
	deaf chan struct{} // not nil: the reader waits for it to be closed
}

// writeTime is how long a hostile peer's write may wait.
const writeTime = 5 * time.Second

func newPeer(l *channel.Link, take func(p *peer, id uint32, cmd cell.Command, body []byte)) *peer {
	p := &peer{link: l, turn: make(chan struct{}, 1), circs: map[uint32]*end{}, state: make(chan peerState, 1), done: make(chan struct{})}
	p.state <- peerState{}
	p.take = func(id uint32, cmd cell.Command, body []byte) { take(p, id, cmd, body) }
	go p.read()
	return p
}

// write sends bytes, after those that were joined before; if joined is set, they
// wait for the next call.
func (p *peer) write(b []byte, joined bool) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.out = append(p.out, b...)
	if joined || len(p.out) == 0 {
		return
	}
	_ = p.link.Conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = p.link.Conn.Write(p.out) // a link that the other end has closed is an answer, too
	p.out = nil
}

// close ends the link at once.
func (p *peer) close() {
	_ = p.link.Conn.NetConn().Close()
	p.hear(true)
}

func (p *peer) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// hear makes the reader continue or stop.
func (p *peer) hear(on bool) {
	s := <-p.state
	switch {
	case on && s.deaf != nil:
		close(s.deaf)
		s.deaf = nil
	case !on && s.deaf == nil:
		s.deaf = make(chan struct{})
	}
	p.state <- s
}

func (p *peer) read() {
	defer close(p.done)
	b := p.link.Leftover
	for {
		for n := cell.Size(b); n > 0 && n <= len(b); n = cell.Size(b) {
			head := cell.HeaderLen
			if cell.Cmd(b).IsVariable() {
				head = cell.VarHeaderLen
			}
			p.take(cell.CircID(b), cell.Cmd(b), b[head:n])
			b = b[n:]
		}
		s := <-p.state
		p.state <- s
		if s.deaf != nil {
			<-s.deaf
		}
		var buf [16 << 10]byte
		n, err := p.link.Conn.Read(buf[:])
		b = append(b[:len(b):len(b)], buf[:n]...)
		if err != nil {
			_ = p.link.Conn.NetConn().Close()
			return
		}
	}
}
