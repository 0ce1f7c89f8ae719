package stream

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/idle"
	"github.com/chivenet/chive/internal/panics"
)

// Terms say how a stream and a connection are joined. Many joints share them.
type Terms struct {
	// Reason returns what the client is told of an error of the target's connection. If
	// it is nil, this end opened the stream.
	Reason func(error) cell.EndReason
	// Flush returns how long the connection may take to read what came before the
	// circuit closed, and each chunk of what came before the stream ended; nil: as long
	// as it likes.
	Flush func() time.Duration
	// Up and Down count the bytes that come from the connection and that go to it, if not nil.
	Up, Down *atomic.Uint64
	Log      *slog.Logger
}

// Ender is told when a joint is over and its connection is closed.
type Ender interface{ Done() }

// Ends hears of the ends of a joint. Its methods may block for a short time.
type Ends interface {
	// Up is called when the connection's bytes have all been sent, with nil, or when that
	// has failed, and Down likewise for the stream's bytes. Each is called once at most,
	// and Up not after the stream's end: then the joint is over when Down has returned.
	// They report whether nothing more must be moved either way; then they have closed
	// the stream.
	Up(j Joined, err error) (over bool)
	Down(j Joined, err error) (over bool)
	Ender
}

// Joined is a stream that is joined to a connection.
type Joined interface {
	// CloseWrite ends what is written to the connection.
	CloseWrite() error
	// Reset closes the connection so that its other end sees a failure, where there is a
	// way to show that, and then does what Cut does.
	Reset()
	// Cut ends both directions and closes the connection, but not the stream.
	Cut()
}

// Join moves bytes both ways between the stream and a connection, in the background. The
// caller must not use the connection after that, but what Join returns. first has bytes
// that the connection has already given.
// While nothing moves, a joined socket has no goroutine and no buffer: the channel's
// reader writes to it, and one goroutine of the process waits for all such sockets.
func (s *Stream) Join(conn net.Conn, first []byte, t *Terms, ends Ends) Joined {
	j, up := s.JoinUp(conn, first, t, ends)
	go panics.Contain(t.Log, nil, up)()
	return j
}

// JoinUp is Join for a caller whose goroutine has nothing else to do: it must call up, which
// moves the connection's bytes until none have come for some time.
func (s *Stream) JoinUp(conn net.Conn, first []byte, t *Terms, ends Ends) (j Joined, up func()) {
	return s.join(conn, first, t, ends)
}

// JoinTarget is Join for the end of a stream that a client did not open, with the
// connection that was made for it. The end of one direction is passed on as a half-close
// if the client takes that, and else ends both.
func (s *Stream) JoinTarget(conn net.Conn, t *Terms, owner Ender) Joined {
	j, up := s.join(conn, nil, t, owner)
	go panics.Contain(t.Log, nil, up)()
	return j
}

func (s *Stream) join(conn net.Conn, first []byte, t *Terms, owner Ender) (_ Joined, up func()) {
	j := &joint{terms: t, s: s, owner: owner, up: moving, left: 2, rested: sinceStart()}
	j.conn.Init(conn, j)
	j.rests = j.conn.MayRest()
	j.sink.to = j
	if j.conn.Tries() {
		j.sink.try = j
	}
	s.setSink(&j.sink)
	s.joint.Store(j)
	if s.ended.Load() {
		j.hurry()
	}
	if s.readable() {
		j.changed()
	}
	return j, panics.Contain(t.Log, j.brokeUp, func() { j.moveUp(first) })
}

// readable reports whether a reader has something to do: there are bytes, or there will be none.
func (s *Stream) readable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.buf.n > 0 || s.readErrLocked() != nil
}

// joint is a Joined.
type joint struct {
	terms *Terms
	owner Ender // Ends, if terms has no Reason
	s     *Stream
	sink  sink
	conn  idle.Conn
	// rested is when up began to rest; the goroutine that moves up owns it.
	rested time.Duration

	mu       sync.Mutex // guards what follows
	up, down motion
	again    bool // the stream has changed while down was moving
	over     bool // neither direction has anything to do any more
	lost     bool // what comes for the target is dropped: see drops
	left     int8 // directions that have not ended; Done is called after the last

	rests bool // a goroutine need not wait for the connection; never changes
}

// started is what times of a joint count from: they take less memory so.
var started = time.Now()

func sinceStart() time.Duration { return time.Since(started) }

// motion is what a direction does.
type motion uint8

const (
	resting motion = iota // nothing waits for it but the poller, or the channel's reader
	moving                // in a goroutine
	ended
)

// start reports whether a resting direction moves now.
func (j *joint) start(m *motion) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *m != resting {
		return false
	}
	*m = moving
	return true
}

// setResting reports whether a direction has nothing to do now.
func (j *joint) setResting(m *motion) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return false
	}
	if m == &j.down && j.again {
		j.again = false
		return false
	}
	if m == &j.up {
		j.rested = sinceStart()
	}
	*m = resting
	return true
}

func (j *joint) isOver() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// part counts a direction that has ended.
func (j *joint) part() {
	if j.count(1) {
		j.finish()
	}
}

// count reports whether the last direction is among n that have ended.
func (j *joint) count(n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left -= int8(n)
	return n > 0 && j.left == 0
}

// Cut implements Joined: the directions that rest end at once, the others when the
// connection or the stream shows that it is closed.
func (j *joint) Cut() {
	n, first := j.cutting()
	if !first {
		return
	}
	j.conn.Close()
	if j.count(n) {
		j.finish()
	}
}

// cutting ends the directions that rest, and returns their number.
func (j *joint) cutting() (n int, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return 0, false
	}
	j.over = true
	for _, m := range []*motion{&j.up, &j.down} {
		if *m == resting {
			*m = ended
			n++
		}
	}
	return n, true
}

func (j *joint) finish() {
	j.conn.Close()
	j.owner.Done()
}
