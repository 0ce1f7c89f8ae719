package channel

import (
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/nonblock"
)

// slowly copies bytes in small pieces, so that the reader meets pauses everywhere: within records, within cells, and
// within the header of either.
func slowly(to, from net.Conn, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	buf := make([]byte, 2000)
	for {
		n, err := from.Read(buf[:1+r.IntN(len(buf))])
		if err != nil {
			to.Close()
			return
		}
		for b := buf[:n]; len(b) > 0; {
			k := min(len(b), 1+r.IntN(400))
			if _, err := to.Write(b[:k]); err != nil {
				from.Close()
				return
			}
			b = b[k:]
			for range r.IntN(4) {
				runtime.Gosched()
			}
		}
	}
}

// slowLinks returns the two ends of a link whose bytes come slowly.
func slowLinks(t *testing.T, seed uint64) (l, r *Link) {
	t.Helper()
	a, x := tcpPair(t)
	y, b := tcpPair(t)
	go slowly(y, x, seed)
	go slowly(x, y, seed+1)
	k := keys(t)
	l, r, lErr, rErr := shake(t, a, b, k.ID, &LinkConfig{}, &LinkConfig{Identity: k})
	if lErr != nil || rErr != nil {
		t.Fatal(lErr, rErr)
	}
	return l, r
}

// ordered checks that numbered cells come in their order.
type ordered struct {
	*sink
	t    *testing.T
	next uint32
	want uint32
	all  chan struct{}
}

func (o *ordered) HandleCells(b []byte) {
	for ; len(b) > 0; b = b[cell.Len:] {
		if n := binary.BigEndian.Uint32(cell.Payload(b)[:]); n != o.next {
			o.t.Errorf("cell %d came for %d", n, o.next)
		}
		if o.next++; o.next == o.want {
			close(o.all)
		}
	}
}

// TestPauses: however the peer's bytes come, and wherever it pauses, all of its cells arrive in their order. The reader
// gives its buffer away in each pause after a whole cell.
func TestPauses(t *testing.T) {
	cells := uint32(3000)
	if testing.Short() {
		cells = 300
	}
	for seed := range uint64(4) {
		l, r := slowLinks(t, seed)
		cfg := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		served, got := cfg, &ordered{sink: newSink(), t: t, want: cells, all: make(chan struct{})}
		served.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) { c.SetReceiver(got) }
		a, b := Start(l, &cfg), Start(r, &served)
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		for n := uint32(0); n < cells; {
			run := min(cells-n, 1+rng.Uint32N(2*recordCells))
			buf := make([]byte, int(run)*cell.Len)
			for i := range run {
				one := buf[int(i)*cell.Len:]
				cell.PutHeader(one, c.ID(), cell.CmdRelay)
				binary.BigEndian.PutUint32(cell.Payload(one)[:], n+i)
			}
			if err := c.Send(buf); err != nil {
				t.Fatal(err)
			}
			n += run
			for c.Queued() > queueBound {
				runtime.Gosched()
			}
		}
		select {
		case <-got.all:
		case <-b.Done():
			t.Fatal(b.Err())
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d cells came within a minute", got.next, cells)
		}
		a.Close(io.EOF)
		<-a.Done()
		<-b.Done()
	}
}

// TestHalfACellCounts: a peer that stops within a cell, or within a record, makes the reader keep buffers, and these are on
// its account until it goes on.
func TestHalfACellCounts(t *testing.T) {
	if !nonblock.Available {
		t.Skip("the reader always has a buffer here")
	}
	l, r := links(t)
	m := account.New(1 << 30)
	b := Start(r, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Memory: m})
	await := func(what string, ok func(int64) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(m.Used()); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%s: %d bytes are on the account", what, m.Used())
			}
		}
	}
	await("an idle link", func(n int64) bool { return n > 0 && n < linkCost+readBuffer })
	padding := cell.AppendFixed(nil, 0, cell.CmdPadding, nil)
	if _, err := l.Conn.Write(padding[:300]); err != nil {
		t.Fatal(err)
	}
	await("half a cell", func(n int64) bool { return n >= linkCost+readBuffer })
	if _, err := l.Conn.Write(padding[300:]); err != nil {
		t.Fatal(err)
	}
	await("a whole cell", func(n int64) bool { return n < linkCost+readBuffer })
	record := make([]byte, 0, recordCells*cell.Len)
	for range recordCells {
		record = append(record, padding...)
	}
	if _, err := l.Conn.Write(record); err != nil {
		t.Fatal(err)
	}
	await("a long record, which TLS has made space for", func(n int64) bool { return n >= linkCost+recordCells*cell.Len })
	b.Close(io.EOF)
	<-b.Done()
	await("a closed link", func(n int64) bool { return n == 0 })
}

// TestFrames: whatever pieces the bytes of records come in, TLS gets whole records, or a part of one
// and nothing else.
func TestFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []byte
	ends := map[int]bool{}
	for range 500 {
		n := []int{0, 1, 17, 514, 16384 + 17, rng.IntN(1 << 14)}[rng.IntN(6)]
		all = append(all, 23, 3, 3, byte(n>>8), byte(n))
		all = append(all, make([]byte, n)...)
		ends[len(all)] = true
	}
	several := 0
	var f frames
	for at := 0; at < len(all); {
		piece := all[at:min(len(all), at+1+rng.IntN(20000))]
		for len(piece) > 0 {
			n := f.next(piece)
			if n <= 0 || n > len(piece) {
				t.Fatalf("%d of %d bytes", n, len(piece))
			}
			within := 0 // records that end before the piece does
			for i := at + 1; i < at+n; i++ {
				if ends[i] {
					within++
				}
			}
			at += n
			if (n < len(piece) || within > 0) && !ends[at] {
				t.Fatalf("%d records, and a part of another", within)
			}
			if within > 0 {
				several++
			}
			piece = piece[n:]
		}
	}
	if several == 0 {
		t.Error("short records never came together")
	}
}
