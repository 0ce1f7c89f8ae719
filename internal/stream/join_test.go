package stream_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// targets joins each stream to the next connection, as an exit and an onion service do.
type targets struct {
	t     testing.TB
	conns chan net.Conn
	half  bool
	flush time.Duration
	done  chan *stream.Stream
	// joints, when set, gets what each stream is joined by, and last has that stream.
	joints chan stream.Joined
	last   atomic.Pointer[stream.Stream]
}

func newTargets(t testing.TB) *targets {
	return &targets{t: t, conns: make(chan net.Conn, 1), flush: time.Minute, done: make(chan *stream.Stream, 1000)}
}

func (h *targets) HandleStream(hop *circuit.Hop, m cell.RelayMsg) error {
	s, err := stream.Accept(hop, m.Stream, "client")
	if err != nil {
		return err
	}
	if err := s.Connected(netip.Addr{}, 0); err != nil {
		return err
	}
	s.SetHalfClose(h.half)
	j := s.JoinTarget(<-h.conns, &stream.Terms{
		Reason: func(error) cell.EndReason { return cell.EndConnReset },
		Flush:  func() time.Duration { return h.flush },
	}, ended(func() { h.done <- s }))
	if h.last.Store(s); h.joints != nil {
		h.joints <- j
	}
	return nil
}

type ended func()

func (f ended) Done() { f() }

// pass sends a message from one end of a way to the other.
func pass(t testing.TB, from io.Writer, to io.Reader, message string) {
	t.Helper()
	if _, err := io.WriteString(from, message); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(message))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != message {
		t.Fatalf("%q, %v", got, err)
	}
}

// joined is a program's connection that leads to a target.
type joined struct {
	program, target *net.TCPConn
	front, relay    *net.TCPConn // their other ends, which are joined to the stream
	client          *stream.Stream
	up, down        chan error
	done            chan struct{}
	joined          stream.Joined
}

func join2(t testing.TB, h *targets, c *circuit.Circuit) *joined {
	t.Helper()
	target, relay := ownedPair(t)
	program, front := ownedPair(t)
	t.Cleanup(func() { target.Close(); program.Close() })
	for _, c := range []net.Conn{front, relay} {
		c.SetDeadline(time.Time{})
	}
	h.conns <- relay
	j := &joined{program: program, target: target, front: front, relay: relay, client: dial(t, c, "x"), up: make(chan error, 1), down: make(chan error, 1), done: make(chan struct{})}
	j.joined = j.client.Join(front, nil, new(stream.Terms), j)
	return j
}

func (j *joined) Up(_ stream.Joined, err error) bool {
	j.up <- err
	if err != nil || j.client.CloseWrite() != nil {
		j.client.Close()
		return true
	}
	return false
}

func (j *joined) Down(front stream.Joined, err error) bool {
	j.down <- err
	return err != nil || front.CloseWrite() != nil
}

func (j *joined) Done() {
	j.client.Close()
	close(j.done)
}

// idleCost is what a silent connection may take at both ends, in bytes, with the test's own
// connections.
const idleCost = 4600

// TestIdleIsCheap: connections that have carried a byte each way, and are silent then,
// have no goroutine at either end, and not much memory.
func TestIdleIsCheap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("goroutines wait for sockets here")
	}
	h := newTargets(t)
	c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Streams: h}))
	const n = 300
	var open []*joined
	more := func() {
		j := join2(t, h, c)
		pass(t, j.program, j.target, "x")
		pass(t, j.target, j.program, "y")
		open = append(open, j)
	}
	more()
	goroutines, bytes := settled(t, 0)
	for range n {
		more()
	}
	// The test's own connections, of which there are two for each joined one, and channels
	// take a part of it. The sockets leave package net after some time.
	each := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
		_, now := settled(t, goroutines+n/10)
		if each = (now - bytes) / n; each <= idleCost {
			break
		}
	}
	if each > idleCost {
		t.Errorf("a connection takes %d bytes at both ends", each)
	}
	t.Logf("%d bytes at both ends", each)
	for _, j := range open {
		j.program.Close()
	}
	for _, j := range open {
		<-j.done
		<-h.done
	}
}

// settled waits until there are most goroutines at most, if that is not zero, and returns their number
// and the bytes of live objects.
func settled(t testing.TB, most int) (goroutines, bytes int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if goroutines = runtime.NumGoroutine(); goroutines <= most || most == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, at most %d wanted", goroutines, most)
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return goroutines, int(m.HeapAlloc)
}

// TestJoinPassesTheEndOn: the end of the program's bytes reaches the target as an end, and
// the answer that follows it reaches the program; and the other way round.
func TestJoinPassesTheEndOn(t *testing.T) {
	for _, programFirst := range []bool{true, false} {
		h := newTargets(t)
		h.half = true
		c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Proto: halves, Streams: h}))
		j := join2(t, h, c)
		first, second := j.program, j.target
		if !programFirst {
			first, second = second, first
		}
		pass(t, first, second, "question")
		first.CloseWrite()
		if n, err := second.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
		pass(t, second, first, "answer")
		second.CloseWrite()
		if n, err := first.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
		<-j.done
		<-h.done
		if up, down := <-j.up, <-j.down; up != nil || down != nil {
			t.Error(up, down)
		}
	}
}

// TestTargetThatReadsNothing: a target that neither reads nor writes does not outlive the
// circuit by more than it may.
func TestTargetThatReadsNothing(t *testing.T) {
	h := newTargets(t)
	h.flush = 0
	c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Streams: h}))
	j := join2(t, h, c)
	j.program.SetDeadline(time.Now().Add(500 * time.Millisecond))
	for { // until the target's socket, and all before it, is full
		if _, err := j.program.Write(make([]byte, 64<<10)); err != nil {
			break
		}
	}
	c.Close(cell.DestroyNone, errors.New("the client is gone"))
	<-h.done
	<-j.done
}

// TestTargetThatReadsNothingAfterEnd: such a target does not outlive the stream, either:
// the stream that has ended does not hear when its circuit closes.
func TestTargetThatReadsNothingAfterEnd(t *testing.T) {
	h := newTargets(t)
	h.flush = 10 * time.Millisecond
	c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Streams: h}))
	j := join2(t, h, c)
	j.program.SetDeadline(time.Now().Add(500 * time.Millisecond))
	for { // until the target's socket, and all before it, is full
		if _, err := j.program.Write(make([]byte, 64<<10)); err != nil {
			break
		}
	}
	j.client.Close() // sends END
	<-j.done
	select {
	case <-h.done:
	case <-time.After(15 * time.Second):
		t.Error("the connection to the target stays")
	}
}

// TestJoinedStreamEnds: each way to end a joined stream ends both connections.
func TestJoinedStreamEnds(t *testing.T) {
	for name, end := range map[string]func(*joined, *circuit.Circuit){
		"the program resets": func(j *joined, _ *circuit.Circuit) { j.program.SetLinger(0); j.program.Close() },
		"the target resets":  func(j *joined, _ *circuit.Circuit) { j.target.SetLinger(0); j.target.Close() },
		"cut":                func(j *joined, _ *circuit.Circuit) { j.joined.Cut(); j.client.Close() },
		"the circuit closes": func(_ *joined, c *circuit.Circuit) { c.Close(cell.DestroyNone, errors.New("test")) },
	} {
		for _, half := range []bool{true, false} {
			for _, idle := range []bool{true, false} {
				t.Run(name, func(t *testing.T) {
					h := newTargets(t)
					h.half = half
					c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Proto: halves, Streams: h}))
					j := join2(t, h, c)
					pass(t, j.program, j.target, "x")
					pass(t, j.target, j.program, "y")
					if !idle { // both ends are being written to, and nobody reads
						for _, c := range []net.Conn{j.program, j.target} {
							c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
							for _, err := c.Write(make([]byte, 64<<10)); err == nil; _, err = c.Write(make([]byte, 64<<10)) {
							}
						}
					}
					end(j, c)
					if idle {
						<-h.done
						<-j.done
						return
					}
					j.program.Close()
					j.target.Close()
					<-h.done
					<-j.done
				})
			}
		}
	}
}
