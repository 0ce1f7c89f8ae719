package stream_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/idle"
	"github.com/chivenet/chive/internal/simnet"
)

// scarceChild says that this process is a child of TestScarce, which may run out of file
// descriptors.
const scarceChild = "CHIVE_TEST_SCARCE"

// TestScarce: when a process has no file descriptor left, joined connections go on, or end
// visibly: nothing hangs, spins or is lost.
func TestScarce(t *testing.T) {
	if os.Getenv(scarceChild) != "" {
		t.Skip("this is the child")
	}
	for _, name := range []string{"Chat", "Poller", "Known", "Ends", "Full"} {
		t.Run(name, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), exe, "-test.run=^TestScarce"+name+"$", "-test.v", "-test.timeout=100s")
			c.Env = append(os.Environ(), scarceChild+"=1")
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestScarce"+name) {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// scarcity is joined connections in the child.
type scarcity struct {
	open        []*joined
	h           *targets
	c           *circuit.Circuit
	watched     int // sockets of the epoll instances before
	descriptors int // when all was open
	taken       []int
}

func newScarcity(t *testing.T, n int) *scarcity {
	if os.Getenv(scarceChild) == "" {
		t.Skip("TestScarce runs this in a process of its own")
	}
	idle.SetRestTime(soakRest)
	s := &scarcity{h: newTargets(t)}
	s.h.half = true
	s.c = build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Proto: halves, Streams: s.h}))
	_, s.watched = watched(t)
	for range n {
		s.open = append(s.open, join2(t, s.h, s.c))
	}
	s.descriptors = descriptors(t)
	return s
}

// rest waits until all joined sockets have left package net, if it may know so many.
func (s *scarcity) rest(t *testing.T) {
	t.Helper()
	for _, j := range s.open {
		pass(t, j.program, j.target, "x")
		pass(t, j.target, j.program, "y")
	}
	s.away(t)
}

// away waits until all joined sockets have left package net: before, the epoll instances
// of package net and of package idle have each.
func (s *scarcity) away(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		polls, n := watched(t)
		if polls == 2 && n <= s.watched+4*len(s.open)+1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the sockets do not leave net: %d, then %d in %d", s.watched, n, polls)
		}
	}
}

// watched returns how many epoll instances the process has, and how many sockets they have.
func watched(t *testing.T) (polls, sockets int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		b, _ := os.ReadFile("/proc/self/fdinfo/" + e.Name()) // it may be closed by now
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.Contains(to, "eventpoll") {
			polls++
			sockets += strings.Count(string(b), "tfd:")
		}
	}
	return polls, sockets
}

// take takes all file descriptors of the process but some.
func (s *scarcity) take(t *testing.T, left int) {
	t.Helper()
	most := uint64(s.descriptors + 50)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		s.taken = append(s.taken, fd)
	}
	for range left {
		syscall.Close(s.taken[len(s.taken)-1])
		s.taken = s.taken[:len(s.taken)-1]
	}
}

// free gives them back.
func (s *scarcity) free() {
	for _, fd := range s.taken {
		syscall.Close(fd)
	}
	s.taken = nil
}

// closed waits until no more file descriptors are open than there were before the sockets.
func (s *scarcity) closed(t *testing.T) {
	t.Helper()
	for _, j := range s.open {
		j.program.Close()
		j.target.Close()
		<-j.done
		<-s.h.done
	}
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		n := descriptors(t)
		if n <= s.descriptors-4*len(s.open) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d file descriptors are left of %d, with %d connections", n, s.descriptors, len(s.open))
		}
	}
}

// cpu returns the processor time that the process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestScarceChat: connections that rest still carry messages, one soon after the other.
func TestScarceChat(t *testing.T) {
	s := newScarcity(t, 20)
	for left := range 4 {
		s.rest(t)
		s.take(t, left)
		begun := time.Now()
		for range 5 {
			for _, j := range s.open {
				pass(t, j.program, j.target, "question")
				pass(t, j.target, j.program, "answer")
			}
		}
		s.free()
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("messages took %v with %d file descriptors", took, left)
		}
	}
	s.closed(t)
}

// TestScarcePoller: if there is none for the poller, connections are served without it.
func TestScarcePoller(t *testing.T) {
	s := newScarcity(t, 1)
	if polls, _ := watched(t); polls != 1 {
		t.Fatal("there is a poller already")
	}
	s.take(t, 0)
	j := s.open[0]
	used, begun := cpu(t), time.Now()
	for time.Since(begun) < 2*time.Second {
		pass(t, j.program, j.target, "question")
		pass(t, j.target, j.program, "answer")
		time.Sleep(200 * time.Millisecond) // silence, in which it would rest
	}
	if used = cpu(t) - used; used > 300*time.Millisecond {
		t.Errorf("%v of processor time in %v", used, time.Since(begun))
	}
	s.free()
	s.rest(t)
	s.closed(t)
}

// TestScarceKnown: sockets for which there is none to leave net stay there, and work.
func TestScarceKnown(t *testing.T) {
	s := newScarcity(t, 20)
	s.open[0].program.Write([]byte("x"))
	for polls, _ := watched(t); polls < 2; polls, _ = watched(t) {
		runtime.Gosched()
	}
	s.take(t, 0)
	for range 3 {
		for _, j := range s.open[1:] {
			pass(t, j.program, j.target, "question")
			pass(t, j.target, j.program, "answer")
		}
		time.Sleep(10 * soakRest) // silence, in which they would leave
	}
	s.free()
	s.closed(t)
}

// TestScarceEnds: all ends are seen, and cost little.
func TestScarceEnds(t *testing.T) {
	s := newScarcity(t, 40)
	s.rest(t)
	s.take(t, 0)
	used, begun := cpu(t), time.Now()
	for i, j := range s.open {
		switch i % 4 {
		case 0:
			j.program.SetLinger(0)
			j.program.Close()
		case 1:
			j.program.CloseWrite()
			if _, err := j.target.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
			j.target.CloseWrite()
			if _, err := j.program.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
		case 2:
			j.client.CloseReason(cell.EndMisc)
		}
	}
	s.c.Close(cell.DestroyNone, errors.New("test"))
	for _, j := range s.open {
		if _, err := j.target.Read(make([]byte, 1)); err == nil {
			t.Error("the target sees no end")
		}
	}
	if used = cpu(t) - used; used > 500*time.Millisecond {
		t.Errorf("%v of processor time in %v", used, time.Since(begun))
	}
	s.free()
	s.closed(t)
}

// TestScarceFull: a connection whose other end is slow waits until there is a file
// descriptor, and loses nothing.
func TestScarceFull(t *testing.T) {
	s := newScarcity(t, 4)
	s.rest(t)
	s.take(t, 0)
	const size = 3 << 20
	wrote := make(chan error)
	for _, j := range s.open {
		go func() {
			_, err := j.program.Write(make([]byte, size))
			j.program.CloseWrite()
			wrote <- err
		}()
	}
	used := cpu(t)
	time.Sleep(time.Second) // nobody reads, and there is no file descriptor
	if used = cpu(t) - used; used > 500*time.Millisecond {
		t.Errorf("%v of processor time in a second", used)
	}
	s.free()
	for _, j := range s.open {
		if n, err := io.Copy(io.Discard, onlyReader{j.target}); n != size || err != nil {
			t.Error(n, err)
		}
		j.target.CloseWrite()
	}
	for range s.open {
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
	s.closed(t)
}

// onlyReader hides a socket from io.Copy, which would make a pipe for it.
type onlyReader struct{ net.Conn }
