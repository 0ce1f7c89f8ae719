package channel

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// onLine keeps the lengths of the records that a client's connection carries, in order.
type onLine struct {
	net.Conn
	mu   sync.Mutex // guards what follows
	rest []byte
	got  []int
}

func (o *onLine) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.rest = append(o.rest, p...); len(o.rest) >= recordHead; {
		n := recordHead + int(binary.BigEndian.Uint16(o.rest[3:]))
		if len(o.rest) < n {
			break
		}
		if o.rest[0] == 23 { // application data: what is encrypted
			o.got = append(o.got, n-recordHead-17) // without the record's type and tag
		}
		o.rest = o.rest[n:]
	}
	return o.Conn.Write(p)
}

// take returns the lengths since the last call.
func (o *onLine) take() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

// commonPair runs f with a channel of a client that looks like C tor's, on virtual time. The relay's accepts
// circuits into sinks.
func commonPair(t *testing.T, bridge bool, f func(a *Channel, line *onLine, accepted chan *sink, relay func() *Channel)) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		line := &onLine{Conn: x}
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		cfg := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Memory: account.New(1 << 30)}
		accepted := make(chan *sink, 8)
		served := cfg
		served.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) {
			s := newSink()
			c.SetReceiver(s)
			accepted <- s
		}
		far := make(chan *Channel, 1)
		go func() {
			l, err := Accept(context.Background(), y, &LinkConfig{Now: now, Identity: k, Common: bridge, Bridge: bridge})
			if err != nil {
				t.Error(err)
				close(far)
				return
			}
			far <- Start(l, &served)
		}()
		own := &LinkConfig{Now: now, Common: true}
		if bridge { // a bridge's links to relays look like a client's
			own.Identity, own.Bridge = k, true
		}
		l, err := Connect(t.Context(), line, k.ID, netip.MustParseAddrPort("127.0.0.1:9001"), own)
		if err != nil {
			t.Fatal(err)
		}
		a := Start(l, &cfg)
		var b *Channel
		relay := func() *Channel {
			if b == nil {
				b = <-far
			}
			return b
		}
		f(a, line, accepted, relay)
		a.Close(fault.New(fault.Closed, "the test is over"))
		<-a.Done()
		<-relay().Done()
	})
}

// TestNetinfoWithFirstCell: NETINFO and the first circuit's cell are one record.
func TestNetinfoWithFirstCell(t *testing.T) {
	for _, bridge := range []bool{false, true} {
		commonPair(t, bridge, func(a *Channel, line *onLine, accepted chan *sink, _ func() *Channel) {
			synctest.Wait()
			if got := line.take(); !slices.Equal(got, []int{36, 11}) { // Finished and VERSIONS
				t.Errorf("records of the handshake: %v", got)
			}
			c, err := a.Open(newSink(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
				t.Fatal(err)
			}
			<-accepted
			time.Sleep(2 * firstCellWait)
			if got := line.take(); !slices.Equal(got, []int{2 * cell.Len}) {
				t.Errorf("records after the handshake: %v", got)
			}
		})
	}
}

// TestNetinfoAlone: without a circuit, the peer gets NETINFO after a while.
func TestNetinfoAlone(t *testing.T) {
	commonPair(t, false, func(a *Channel, line *onLine, _ chan *sink, relay func() *Channel) {
		line.take()
		before := time.Now()
		relay()
		if d := time.Since(before); d != firstCellWait { // virtual time
			t.Errorf("NETINFO came after %v", d)
		}
		if got := line.take(); !slices.Equal(got, []int{cell.Len}) {
			t.Errorf("records: %v", got)
		}
	})
}

// TestNetinfoOfAClosedLink: a link that ends first sends nothing more, and its timer does no harm.
func TestNetinfoOfAClosedLink(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		line := &onLine{Conn: x}
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		failed := make(chan error, 1)
		go func() {
			_, err := Accept(context.Background(), y, &LinkConfig{Now: now, Identity: k})
			failed <- err
		}()
		l, err := Connect(t.Context(), line, k.ID, netip.MustParseAddrPort("127.0.0.1:9001"), &LinkConfig{Now: now, Common: true})
		if err != nil {
			t.Fatal(err)
		}
		a := Start(l, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		line.take()
		a.Close(fault.New(fault.Closed, "the test is over"))
		<-a.Done()
		if err := <-failed; err == nil {
			t.Error("the relay has a link")
		}
		time.Sleep(2 * firstCellWait)
		if got := line.take(); len(got) > 0 {
			t.Errorf("records: %v", got)
		}
	})
}

// TestNetinfoBeforeTheReader: on a machine that has no time, a writer may come and go before the reader runs. It is not
// the channel's last goroutine.
func TestNetinfoBeforeTheReader(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		far := make(chan error, 1)
		go func() {
			_, err := Accept(context.Background(), y, &LinkConfig{Now: now, Identity: k})
			far <- err
		}()
		l, err := Connect(t.Context(), x, k.ID, netip.MustParseAddrPort("127.0.0.1:9001"), &LinkConfig{Now: now, Common: true})
		if err != nil {
			t.Fatal(err)
		}
		var waited atomic.Bool
		a := Start(l, &Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
			if l.unsent == nil && waited.CompareAndSwap(false, true) {
				time.Sleep(2 * firstCellWait)
			}
			return time.Now()
		}})
		if err := <-far; err != nil || !waited.Load() {
			t.Errorf("the relay has no link: %v; waited: %t", err, waited.Load())
		}
		synctest.Wait()
		select {
		case <-a.Done():
			t.Error("the channel has ended")
		default:
		}
		a.Close(fault.New(fault.Closed, "the test is over"))
		<-a.Done()
		y.Close()
	})
}

// TestCutRecords: what waits is cut into records of one size, as C tor's buffers cut it, whichever queues it comes
// from, and the other end gets the same cells.
func TestCutRecords(t *testing.T) {
	for _, cells := range []int{1, 7, 8, 31, 62, 200} {
		for _, circuits := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d cells of %d circuits", cells, circuits), func(t *testing.T) {
				commonPair(t, false, func(a *Channel, line *onLine, accepted chan *sink, _ func() *Channel) {
					var ends []*CircuitEnd
					var sinks []*sink
					for range circuits {
						c, got := opened(t, a, accepted)
						ends, sinks = append(ends, c), append(sinks, got)
					}
					synctest.Wait()
					line.take()
					held := a.account.Used()
					a.mu.Lock() // nobody writes before all are there
					for i, c := range ends {
						c.q.push(named(c.ID(), i, cells), false)
						c.queued.Store(int32(c.q.n))
						a.sched.add(c)
					}
					a.wakeLocked()
					a.mu.Unlock()
					synctest.Wait()
					total := cells * circuits * cell.Len
					var want []int
					for ; total > ctorRecord; total -= ctorRecord {
						want = append(want, ctorRecord)
					}
					want = append(want, total)
					if got := line.take(); !slices.Equal(got, want) {
						t.Errorf("records of %v, not %v", got, want)
					}
					for i, s := range sinks {
						if want := named(ends[i].ID(), i, cells); !bytes.Equal(s.cells, want) {
							t.Errorf("circuit %d got %d cells, or others than were sent", i, s.count())
						}
					}
					if now := a.account.Used(); now != held {
						t.Errorf("the idle link holds %d bytes, and %d before", now, held)
					}
				})
			})
		}
	}
}

// opened opens a circuit, and returns it with what the peer's end of it goes into.
func opened(t *testing.T, a *Channel, accepted <-chan *sink) (*CircuitEnd, *sink) {
	t.Helper()
	c, err := a.Open(newSink(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
		t.Fatal(err)
	}
	return c, <-accepted
}

// named returns n cells of a circuit, each with its number.
func named(id uint32, circuit, n int) []byte {
	b := numbered(1000*circuit, n)
	for i := range n {
		cell.PutHeader(b[i*cell.Len:], id, cell.CmdRelay)
	}
	return b
}

// TestCutRecordOfADroppedQueue: a record that waits for more is sent when the cells behind it are dropped.
func TestCutRecordOfADroppedQueue(t *testing.T) {
	commonPair(t, false, func(a *Channel, line *onLine, accepted chan *sink, _ func() *Channel) {
		c, got := opened(t, a, accepted)
		synctest.Wait()
		line.take()
		a.mu.Lock()
		c.q.push(named(c.ID(), 0, 40), false)
		c.queued.Store(40)
		a.sched.add(c)
		a.turn = turnCaller
		a.mu.Unlock()
		if more, err := a.writeRecord(false); !more || err != nil {
			t.Fatal(more, err)
		}
		synctest.Wait()
		if n := got.count(); n != 3*ctorRecord/cell.Len || a.begun == nil {
			t.Errorf("%d cells came of the first 31, and the rest waits: %v", n, a.begun != nil)
		}
		a.mu.Lock()
		a.sched.remove(c)
		c.q.clear()
		a.mu.Unlock()
		if more, err := a.writeRecord(false); !more || err != nil {
			t.Fatal(more, err)
		}
		synctest.Wait()
		if n := got.count(); n != 31 || a.begun != nil {
			t.Errorf("%d cells came, and something waits: %v", n, a.begun != nil)
		}
		if more, err := a.writeRecord(false); more || err != nil {
			t.Error("there is more to write", err)
		}
	})
}

// TestBridgeCutsRecords: what a bridge sends to its clients is cut, too; what other relays send is not.
func TestBridgeCutsRecords(t *testing.T) {
	for _, bridge := range []bool{true, false} {
		commonPair(t, bridge, func(a *Channel, line *onLine, accepted chan *sink, relay func() *Channel) {
			if got := relay().link.Common; got != bridge {
				t.Errorf("a bridge: %v; the records are C tor's: %v", bridge, got)
			}
		})
	}
}

// TestCutRecordsOverTCP: with a socket, too, what a client sends is cut, and the last cell does not stay behind.
func TestCutRecordsOverTCP(t *testing.T) {
	dialled, near := tcpPair(t)
	far, accepted := tcpPair(t)
	line := &onLine{Conn: far}
	copied := make(chan error, 2)
	for _, p := range [][2]net.Conn{{line, near}, {near, far}} {
		go func() {
			_, err := io.Copy(struct{ io.Writer }{p[0]}, struct{ io.Reader }{p[1]})
			p[0].Close()
			copied <- err
		}()
	}
	k := keys(t)
	const cells = 500
	came := make(chan int, cells)
	served := &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Accept: func(c *CircuitEnd, _ cell.Command, _ []byte) {
		c.SetReceiver(&teller{newSink(), came})
	}}
	relay := make(chan *Channel, 1)
	go func() {
		defer close(relay)
		l, err := Accept(context.Background(), accepted, &LinkConfig{Identity: k})
		if err != nil {
			t.Error(err)
			return
		}
		relay <- Start(l, served)
	}()
	l, err := Connect(t.Context(), dialled, k.ID, netip.MustParseAddrPort("127.0.0.1:9001"), &LinkConfig{Common: true})
	if err != nil {
		t.Fatal(err)
	}
	a := Start(l, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Stats: new(Stats)})
	if a.wire == nil {
		t.Skip("no socket without waiting on this system")
	}
	c, err := a.Open(newSink(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
		t.Fatal(err)
	}
	b := <-relay
	for range 10 {
		if err := c.Send(named(c.ID(), 0, cells/10)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < cells; n += <-came {
	}
	// Eight cells leave a record of 64 bytes, which is no answer of TLS.
	const bursts = 2 * maxAnswers
	for range bursts {
		if err := c.Send(named(c.ID(), 0, 8)); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 8; {
			select {
			case k := <-came:
				n += k
			case <-a.Done():
				t.Fatal(a.Err())
			}
		}
	}
	got, long := line.take(), 0
	for _, n := range got {
		if n > ctorRecord {
			t.Errorf("a record of %d bytes", n)
		}
		if n == ctorRecord {
			long++
		}
	}
	if least := cells * cell.Len / ctorRecord / 2; long < least {
		t.Errorf("%d of the records have the size of C tor's, and should be %d: %v", long, least, got)
	}
	if n := a.cfg.Stats.CellsOut.Load(); n != cells+8*bursts+2 { // NETINFO and CREATE2
		t.Errorf("%d cells were counted", n)
	}
	a.Close(fault.New(fault.Closed, "the test is over"))
	<-a.Done()
	<-b.Done()
	<-copied
	<-copied
}
