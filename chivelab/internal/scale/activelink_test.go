package scale

import (
	"net"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
)

// plain is a connection in the place of a TLS one.
type plain struct{ net.Conn }

func (p plain) NetConn() net.Conn { return p.Conn }

// TestCellLink has two links give each other the cells of a link with padding between them, and looks at what comes.
func TestCellLink(t *testing.T) {
	here, there := net.Pipe()
	over := func(raw net.Conn, accept func(*cellLink, uint32, cell.Command, []byte) error, leftover []byte) *cellLink {
		l, err := linkOver(raw, accept, func(c net.Conn) (*channel.Link, error) {
			return &channel.Link{Conn: plain{c}, Leftover: leftover}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p, q := newPath(), newPath()
	asked := make(chan uint32, 1)
	far := over(there, func(l *cellLink, id uint32, _ cell.Command, _ []byte) error {
		l.join(id, &p.ends[farEnd])
		asked <- id
		return nil
	}, cell.AppendVar(nil, 0, cell.CmdVPadding, make([]byte, 300)))
	near := over(here, nil, nil)
	t.Cleanup(far.close)
	t.Cleanup(near.close)

	near.open(&p.ends[nearEnd])
	near.open(&q.ends[nearEnd])
	near.sendControl(0, cell.CmdPadding, nil)
	near.sendControl(p.ends[nearEnd].id, cell.CmdCreate2, nil)
	if id := <-asked; id != 1<<31|1 {
		t.Errorf("circuit %#x", id)
	}
	// The first cell that comes to the client is the answer to EXTEND2.
	far.owe(&p.ends[farEnd], 1)
	<-p.open
	came := make(chan int, 1000)
	hear := func(_ *pathEnd, n int) { came <- n }
	answer := func(e *pathEnd, n int) { e.send(n) }
	p.ends[nearEnd].arrived.Store(&hear)
	p.ends[farEnd].arrived.Store(&answer)
	q.ends[nearEnd].send(100) // the far end knows nothing of it
	p.ends[nearEnd].send(2*round + 5)
	for n := 0; n < 2*round+5; n += <-came {
	}
	if there, here := p.ends[farEnd].got.Load(), p.ends[nearEnd].got.Load(); there != 2*round+5 || here != there {
		t.Errorf("the far end got %d cells, and the client %d answers", there, here)
	}
	// Now each whole round that comes lets the client send one more.
	many := make(chan struct{})
	sum := 0
	count := func(e *pathEnd, n int) {
		if sum < 10*round && sum+n >= 10*round {
			close(many)
			e.flowing.Store(false)
		}
		sum += n
	}
	p.ends[farEnd].arrived.Store(&count)
	p.ends[farEnd].flowing.Store(true)
	p.ends[nearEnd].send(round)
	<-many
	if p.lost.Load() {
		t.Error("a circuit that is there is called lost")
	}
	far.sendControl(p.ends[farEnd].id, cell.CmdDestroy, []byte{1})
	far.owe(&p.ends[farEnd], 1) // behind it
	<-came
	if !p.lost.Load() {
		t.Error("DESTROY was not noticed")
	}
	near.close()
	if !q.lost.Load() {
		t.Error("the end of the link was not noticed")
	}
}

// TestCellLinkShares looks at the order of cells of several circuits.
func TestCellLinkShares(t *testing.T) {
	l := &cellLink{ends: map[uint32]*pathEnd{}}
	l.more.L = &l.mu
	var p [3]*path
	for i := range p {
		p[i] = newPath()
		l.open(&p[i].ends[nearEnd])
	}
	p[0].ends[nearEnd].send(20)
	p[1].ends[nearEnd].send(20)
	p[2].ends[nearEnd].send(1) // a small request
	record := make([]byte, round*cell.Len)
	var got []uint32
	for {
		_, n := l.take(record)
		if n == 0 {
			break
		}
		for i := range n {
			id := cell.CircID(record[i*cell.Len:]) &^ (1 << 31)
			if k := len(got); k == 0 || got[k-1] != id {
				got = append(got, id)
			}
		}
	}
	want := []uint32{3, 1, 2, 1, 2, 1, 2}
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatal(got)
		}
	}
}
