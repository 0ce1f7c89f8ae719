package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/idle"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// soakRest is how long sockets rest in a soak before they leave package net: short, so
// that they come and go often.
const soakRest = 3 * time.Millisecond

// TestSoak: hundreds of joined connections, whose programs and targets write, are silent,
// read slowly and end in every way. Every byte arrives in order and once, every end is
// seen, and nothing is left: no file descriptor, no goroutine, no memory on an account.
// CHIVE_LONG=1 soaks for minutes.
func TestSoak(t *testing.T) {
	rounds, each := 2, 100
	if os.Getenv("CHIVE_LONG") != "" {
		rounds, each = 40, 300
	}
	idle.SetRestTime(soakRest)
	defer idle.SetRestTime(time.Second)
	for round := range rounds {
		for _, half := range []bool{true, false} {
			seed := rand.Uint64()
			if n, err := strconv.ParseUint(os.Getenv("CHIVE_SEED"), 10, 64); err == nil {
				seed = n
			}
			t.Run(fmt.Sprintf("%d half=%v seed=%d", round, half, seed), func(t *testing.T) { soak(t, seed, each, half) })
		}
	}
}

func soak(t *testing.T, seed uint64, each int, half bool) {
	memory := account.New(0)
	h := newTargets(t)
	h.half = half
	h.flush = 500 * time.Millisecond
	o := simnet.Options{Streams: h, Memory: memory}
	if half {
		o.Proto = halves
	}
	m := channel.NewManager(&channel.Config{Memory: memory, Log: discard, Now: time.Now}, &channel.LinkConfig{Memory: memory}, simnet.Dial)
	t.Cleanup(m.Close)
	relay := simnet.New(t, o)
	build(t, m, kinds["vegas cgo"], relay)
	runtime.GC()
	base := settledAt{descriptors(t), runtime.NumGoroutine(), int(memory.Used())}
	c := build(t, m, kinds["vegas cgo"], relay)
	var wg sync.WaitGroup
	circuits := []*circuit.Circuit{c}
	for i := range each {
		if i%50 == 49 {
			c = build(t, m, kinds["vegas cgo"], relay)
			circuits = append(circuits, c)
		}
		s := &soaked{t: t, r: rand.New(rand.NewPCG(seed, uint64(i))), half: half}
		s.open(h, c)
		wg.Go(s.run)
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(2 * time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("a connection does not end:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
	for range each {
		(<-h.done).Close() // as an exit does
	}
	for _, c := range circuits {
		c.Close(cell.DestroyNone, errors.New("the soak is over"))
	}
	base.wait(t, memory)
}

// keptByTLS is what the two ends of a link keep at most for their input: the space for one long record, or not quite twice that.
const keptByTLS = 2 * (34 << 10)

// settledAt is what a process holds.
type settledAt struct{ descriptors, goroutines, bytes int }

// wait waits until the process holds no more than before.
func (b settledAt) wait(t *testing.T, memory *account.Memory) {
	t.Helper()
	var now settledAt
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); runtime.Gosched() {
		now = settledAt{descriptors(t), runtime.NumGoroutine(), int(memory.Used())}
		if now.descriptors <= b.descriptors && now.goroutines <= b.goroutines && now.bytes <= b.bytes+keptByTLS {
			return
		}
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("before: %+v, after: %+v\n%s", b, now, stacks[:runtime.Stack(stacks, true)])
}

// descriptors returns how many file descriptors the process has.
func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system does not show file descriptors")
	}
	return len(open)
}

// soaked is a joined connection in a soak.
type soaked struct {
	t               *testing.T
	r               *rand.Rand // of run
	half            bool
	program, target net.Conn
	circuit         *circuit.Circuit
	client          *stream.Stream
	joined          stream.Joined
	done            chan struct{}
	ways            [2]way // from the program, and from the target

	mu       sync.Mutex // guards what follows
	brutal   bool       // something other than the ends of the data may end it
	up, down []error
}

// way is a direction between the program and the target.
type way struct {
	from, to net.Conn
	seed     byte
	sent     int // bytes that were written
	ended    bool
}

func (s *soaked) open(h *targets, c *circuit.Circuit) {
	target, relay := s.pair()
	program, front := s.pair()
	h.conns <- relay
	s.program, s.target, s.circuit, s.done = program, target, c, make(chan struct{})
	s.ways = [2]way{{from: program, to: target, seed: byte(s.r.Uint32())}, {from: target, to: program, seed: byte(s.r.Uint32())}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if s.client, err = stream.Dial(ctx, c.Last(), "x", 80); err != nil {
		s.t.Fatal(err)
	}
	s.joined = s.client.Join(front, nil, new(stream.Terms), s)
}

// pair returns the ends of a connection of either kind.
func (s *soaked) pair() (a, b net.Conn) {
	if s.r.IntN(3) == 0 {
		return unixPair(s.t)
	}
	x, y := ownedPair(s.t)
	x.SetDeadline(time.Time{})
	y.SetDeadline(time.Time{})
	return x, y
}

func unixPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("unix", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Up, Down and Done are what a local port does.
func (s *soaked) Up(j stream.Joined, err error) bool {
	s.mu.Lock()
	s.up = append(s.up, err)
	s.mu.Unlock()
	if err == nil {
		err = s.client.CloseWrite()
	}
	return s.over(j, err)
}

func (s *soaked) Down(j stream.Joined, err error) bool {
	s.mu.Lock()
	s.down = append(s.down, err)
	s.mu.Unlock()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err == nil {
		err = j.CloseWrite()
	}
	return s.over(j, err)
}

func (s *soaked) over(j stream.Joined, err error) bool {
	if err != nil {
		j.Reset()
		s.client.Close()
	}
	return err != nil
}

func (s *soaked) Done() {
	s.client.Close()
	close(s.done)
}

func (s *soaked) setBrutal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brutal = true
}

// at is the byte of a way at a place.
func at(seed byte, i int) byte { return byte(i*7) ^ byte(i>>8)*13 ^ byte(i>>16)*29 ^ seed }

// run writes, is silent and ends.
func (s *soaked) run() {
	defer s.target.Close()
	defer s.program.Close()
	var readers sync.WaitGroup
	var got [2]int
	var ends [2]error
	for i := range s.ways {
		r := rand.New(rand.NewPCG(s.r.Uint64(), uint64(i)))
		readers.Go(func() { got[i], ends[i] = s.read(&s.ways[i], r) })
	}
	for range 3 + s.r.IntN(20) {
		s.step()
	}
	s.end()
	<-s.done
	readers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.up) > 1 || len(s.down) > 1 {
		s.t.Error("an end was told twice:", s.up, s.down)
	}
	for i, w := range s.ways {
		if got[i] > w.sent {
			s.t.Errorf("%d bytes came of %d", got[i], w.sent)
		}
		if !s.brutal && s.half && (got[i] != w.sent || ends[i] != io.EOF) {
			s.t.Errorf("%d bytes came of %d: %v", got[i], w.sent, ends[i])
		}
	}
}

// step does something that ends nothing.
func (s *soaked) step() {
	w := &s.ways[s.r.IntN(2)]
	switch s.r.IntN(8) {
	case 0, 1:
		s.write(w, 1+s.r.IntN(100))
	case 2:
		s.write(w, 1+s.r.IntN(20000))
	case 3:
		if s.r.IntN(4) == 0 {
			s.write(w, 1+s.r.IntN(600000))
		}
	case 4: // both at once
		s.write(&s.ways[0], 1+s.r.IntN(1000))
		s.write(&s.ways[1], 1+s.r.IntN(1000))
	default: // silence is a part of the load
		time.Sleep(time.Duration(s.r.IntN(int(6 * soakRest))))
	}
}

func (s *soaked) write(w *way, n int) {
	if w.ended {
		return
	}
	p := make([]byte, n)
	for i := range p {
		p[i] = at(w.seed, w.sent+i)
	}
	w.from.SetWriteDeadline(time.Now().Add(time.Minute))
	n, err := w.from.Write(p)
	w.sent += n
	if err != nil {
		s.t.Error("it ended by itself:", err)
		w.ended = true
	}
}

// read reads a way until its end, at times slowly.
func (s *soaked) read(w *way, r *rand.Rand) (n int, err error) {
	p := make([]byte, 64<<10)
	slow := r.IntN(4) == 0
	for {
		if slow && r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(int(8 * soakRest))))
		}
		k, err := w.to.Read(p[:1+r.IntN(len(p))])
		for i, b := range p[:k] {
			if b != at(w.seed, n+i) {
				s.t.Errorf("byte %d is wrong", n+i)
				return n, errors.New("wrong")
			}
		}
		n += k
		if err != nil {
			return n, err
		}
	}
}

type closeWriter interface{ CloseWrite() error }

// end ends the connection.
func (s *soaked) end() {
	how := s.r.IntN(9)
	first, second := s.program, s.target
	ways := []*way{&s.ways[0], &s.ways[1]}
	if s.r.IntN(2) == 0 {
		first, second = second, first
		ways[0], ways[1] = ways[1], ways[0]
	}
	switch how {
	case 0, 1, 2, 3: // each ends what it writes, and with half-closes nothing is lost
		first.(closeWriter).CloseWrite()
		if s.half {
			ways[0].ended = true
			for range s.r.IntN(6) {
				s.step()
			}
		}
		second.(closeWriter).CloseWrite()
		return
	}
	s.setBrutal()
	switch how {
	case 4:
		if t, ok := first.(*net.TCPConn); ok {
			t.SetLinger(0)
		}
		first.Close()
	case 5:
		first.Close()
	case 6:
		s.joined.Cut()
		s.client.Close()
	case 7:
		s.client.CloseReason(cell.EndMisc)
	case 8:
		s.joined.Reset()
		s.client.Close()
	}
	// A program whose connection has ended in one direction closes it some time.
	time.Sleep(time.Duration(s.r.IntN(int(4 * soakRest))))
	first.Close()
	second.Close()
}
