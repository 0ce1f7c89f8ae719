package channel

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/nonblock"
)

// TestWireKeepsOrder: whatever is gathered, pushed, stuck and drained, the
// other end reads the bytes in the order in which they were written.
func TestWireKeepsOrder(t *testing.T) {
	if !nonblock.Available {
		t.Skip("no wire here")
	}
	a, b := tcpPair(t)
	defer a.Close()
	defer b.Close()
	w := newWire(a)
	w.setDirect(func() {}, nil)
	var want, got bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { // reads as it likes, so that the socket is full now and then
		r := rand.New(rand.NewPCG(5, 6))
		p := make([]byte, 1<<20)
		for {
			n, err := b.Read(p[:1+r.IntN(len(p))])
			got.Write(p[:n])
			if err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				return
			}
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	stuck := 0
	for want.Len() < 16<<20 {
		p := make([]byte, 1+r.IntN(17000))
		for i := 0; i < len(p); i += 64 {
			p[i] = byte(r.Uint32())
		}
		if len(w.rest)+len(p) > maxRest {
			if err := w.drain(); err != nil {
				t.Fatal(err)
			}
		}
		w.gather(r.IntN(4) > 0)
		want.Write(p)
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		if r.IntN(8) == 0 {
			if err := w.push(); err != nil {
				t.Fatal(err)
			}
		}
		if w.full() {
			stuck++
		}
		if w.full() && r.IntN(2) == 0 || r.IntN(100) == 0 {
			if err := w.drain(); err != nil || w.hasKept() || w.full() {
				t.Fatal("drained, but something waits", err)
			}
		}
	}
	if err := w.drain(); err != nil || w.out != nil {
		t.Fatal("an idle wire holds a buffer", err)
	}
	a.Close()
	wg.Wait()
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Fatalf("%d bytes arrived of %d, or in another order", got.Len(), want.Len())
	}
	t.Logf("the socket was full %d times", stuck)
}

// closer is a receiver that closes its channel at the end of a batch, as a
// circuit does that finds the channel broken when it answers.
type closer struct {
	*sink
	ch *Channel
}

func (c closer) HandleBatchEnd() { c.ch.Close(fault.New(fault.Closed, "enough")) }

// TestReaderMayClose: what the reader does at the end of a batch may close the
// connection that it reads from.
func TestReaderMayClose(t *testing.T) {
	l, r := links(t)
	cfg := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	served := cfg
	var b *Channel
	started := make(chan struct{})
	served.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) {
		<-started
		c.SetReceiver(closer{newSink(), b})
	}
	a := Start(l, &cfg)
	b = Start(r, &served)
	close(started)
	c, err := a.Open(newSink(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
		t.Fatal(err)
	}
	cells := numbered(0, 1)
	cell.PutHeader(cells, c.ID(), cell.CmdRelay)
	if err := c.Send(cells); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	<-a.Done()
}

// TestWireKeepsLittle: what waits for a peer that does not read is bounded, and on
// the account.
func TestWireKeepsLittle(t *testing.T) {
	w, m := accountedWire(t)
	var err error
	for err == nil {
		_, err = w.Write(make([]byte, 16000))
	}
	if !fault.Is(err, fault.Resource) || len(w.rest) > maxRest {
		t.Errorf("%d bytes are kept: %v", len(w.rest), err)
	}
	if m.Used() != int64(len(wireBuffer{}.b)) {
		t.Errorf("%d bytes are on the account", m.Used())
	}
}

// TestWireAnswersLittle: a peer that makes TLS answer all the time, as KeyUpdate
// does, loses its link.
func TestWireAnswersLittle(t *testing.T) {
	w, _ := accountedWire(t)
	for i := range 2 * maxAnswers {
		if _, err := w.Write(make([]byte, 514)); err != nil {
			t.Fatal(err) // cells are none
		}
		_, err := w.Write(make([]byte, 27))
		if bad := i >= maxAnswers; bad != fault.Is(err, fault.Protocol) {
			t.Fatalf("answer %d: %v", i+1, err)
		}
	}
}

// TestWireAnswersLate: an answer of TLS itself goes out on a link whose last record was written
// long ago. TLS keeps an error, and the next cell would cost the link.
func TestWireAnswersLate(t *testing.T) {
	w, _ := accountedWire(t)
	if err := w.SetWriteDeadline(time.Unix(1, 0)); err != nil { // that of the last record
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 27)); err != nil {
		t.Error(err)
	}
}

// accountedWire returns a direct wire to a peer that does not read.
func accountedWire(t *testing.T) (*wire, *account.Memory) {
	if !nonblock.Available {
		t.Skip("no wire here")
	}
	a, b := tcpPair(t)
	t.Cleanup(func() { a.Close(); b.Close() })
	m := account.New(1 << 30)
	w := newWire(a)
	w.setDirect(func() {}, m.Address(netip.Addr{}).Open(account.Link, nil))
	return w, m
}
