package idle

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/nonblock"
)

// reader reads what comes, when it is woken, as a joint's way up does.
type reader struct {
	c     *Conn
	mu    sync.Mutex // guards what follows, and lets one goroutine read
	n     int
	err   error
	ended chan struct{}
}

func (r *reader) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := make([]byte, 1000)
	for r.err == nil {
		n, err := r.c.read(p)
		for i, b := range p[:n] {
			if b != byte(r.n+i) {
				err = io.ErrNoProgress
			}
		}
		r.n += n
		if err == nonblock.ErrWait {
			if err = r.c.Rest(); err == nil {
				return
			}
		}
		if err != nil {
			r.err = err
			close(r.ended)
		}
	}
}

// TestSoak: writes that wait and that do not, rests, returns, bounds and ends at the same
// time, in many orders, lose no byte and leave nothing. CHIVE_LONG=1 runs it for longer.
func TestSoak(t *testing.T) {
	rounds := 100
	if os.Getenv("CHIVE_LONG") != "" {
		rounds = 20000
	}
	SetRestTime(100 * time.Microsecond)
	defer SetRestTime(time.Second)
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("CHIVE_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range rounds {
		slots <- struct{}{}
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() { soak(t, r); <-slots })
	}
	wg.Wait()
	for end := time.Now().Add(20 * time.Second); descriptors(t) > before || runtime.NumGoroutine() > goroutines || all.swept() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d file descriptors and %d goroutines are left", descriptors(t)-before, runtime.NumGoroutine()-goroutines)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.epoll != nil || len(all.conns) > 0 {
		t.Error("the poller stays")
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

func soak(t *testing.T, r *rand.Rand) {
	peer, own := socketPair(t, r.IntN(3) == 0)
	defer peer.Close()
	c := new(Conn)
	read := &reader{c: c, ended: make(chan struct{})}
	c.Init(own, read)
	read.Wake()
	var all sync.WaitGroup
	var wrote, got atomic.Int64
	brutal := r.IntN(3) == 0 // it is closed at any time
	var bound atomic.Bool    // writes may fail
	steps, seeds := 5+r.IntN(40), [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}
	all.Go(func() { // our writer: without waiting, and then with it
		r := rand.New(rand.NewPCG(seeds[0], 0))
		defer c.CloseWrite()
		for range steps {
			p := make([]byte, 1+r.IntN(1+r.IntN(200000)))
			for i := range p {
				p[i] = byte(int(wrote.Load()) + i)
			}
			n, err := c.TryWrite(p)
			wrote.Add(int64(n))
			if err == nil && n < len(p) {
				var conn net.Conn
				if conn, _, err = c.Hold(false); err == nil {
					n, err = conn.Write(p[n:])
					wrote.Add(int64(n))
					c.Release()
				}
			}
			if err != nil {
				if !brutal && !bound.Load() {
					t.Error(err)
				}
				return
			}
			pause(r)
		}
	})
	all.Go(func() { // the peer's reader, at times slow
		r := rand.New(rand.NewPCG(seeds[1], 0))
		p := make([]byte, 50000)
		for {
			n, err := peer.Read(p[:1+r.IntN(len(p))])
			for i, b := range p[:n] {
				if b != byte(int(got.Load())+i) {
					t.Errorf("byte %d is wrong", int(got.Load())+i)
					return
				}
			}
			got.Add(int64(n))
			if err != nil {
				return
			}
			if r.IntN(4) == 0 {
				pause(r)
			}
		}
	})
	sent := 0
	for range steps {
		p := make([]byte, 1+r.IntN(3000))
		for i := range p {
			p[i] = byte(sent + i)
		}
		n, err := peer.Write(p)
		if sent += n; err != nil {
			if !brutal {
				t.Error(err)
			}
			break
		}
		switch r.IntN(6) {
		case 0: // a reader that waits comes and goes
			if _, _, err := c.Hold(false); err == nil {
				pause(r)
				c.Release()
			}
		case 1:
			c.Known()
			c.Rest()
		case 2:
			if r.IntN(10) == 0 {
				c.SetWriteDeadline(time.Now().Add(time.Hour))
			}
		default:
			pause(r)
		}
	}
	ends := peer.(interface{ CloseWrite() error })
	if brutal {
		switch r.IntN(4) {
		case 0:
			c.Close()
		case 1:
			c.Reset()
		case 2:
			if t, ok := peer.(*net.TCPConn); ok {
				t.SetLinger(0)
			}
			peer.Close()
			<-read.ended
		case 3:
			bound.Store(true)
			c.SetWriteDeadline(time.Now())
			peer.Close()
			<-read.ended
		}
		c.Close()
		peer.Close()
		all.Wait()
		return
	}
	ends.CloseWrite()
	<-read.ended
	all.Wait()
	c.Close()
	if read.n != sent || read.err != io.EOF {
		t.Errorf("%d bytes came of %d: %v", read.n, sent, read.err)
	}
	if got.Load() != wrote.Load() {
		t.Errorf("the peer got %d bytes of %d", got.Load(), wrote.Load())
	}
}

// pause is silence, which is a part of the load.
func pause(r *rand.Rand) { time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond) }

// socketPair returns the ends of a connection that are closed by the caller.
func socketPair(t testing.TB, unix bool) (a, b net.Conn) {
	network, addr := "tcp", "127.0.0.1:0"
	if unix {
		network, addr = "unix", "" // a name that the kernel chooses
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
	defer ln.Close()
	if a, err = net.Dial(network, ln.Addr().String()); err == nil {
		b, err = ln.Accept()
	}
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
	return a, b
}

// TestOldNumber: an event of a connection that is closed wakes nobody, also if another
// connection has its file descriptor by then; and what comes after an end or a reset is
// told of once, not again and again.
func TestOldNumber(t *testing.T) {
	each(t, func(t *testing.T, rest func(*Conn)) {
		a, b := pair(t)
		old, woken := resting(t, b)
		rest(old)
		old.mu.Lock()
		number := old.number
		old.mu.Unlock()
		other, otherWoken := resting(t, func() net.Conn { _, d := pair(t); return d }()) // keeps the poller
		rest(other)
		old.Close()
		a.Close()
		c, d := pair(t) // has the file descriptors
		next, nextWoken := resting(t, d)
		rest(next)
		if all.numbered(number) != nil {
			t.Error("the number is used again")
		}
		c.SetLinger(0)
		c.Close()
		<-nextWoken
		if n, err := next.read(make([]byte, 1)); n != 0 || err != syscall.ECONNRESET {
			t.Error(n, err)
		}
		select {
		case <-woken:
			t.Error("a closed connection wakes")
		case <-otherWoken:
			t.Error("a silent connection wakes")
		case <-nextWoken:
			t.Error("a reset is told of twice")
		case <-time.After(20 * time.Millisecond): // time in which the poller would run
		}
	})
}
