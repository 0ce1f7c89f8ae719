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

// A stream that is joined to a connection takes these steps:
//
//	join the two                                        Join, JoinUp, JoinTarget  join.go
//	move up: from the connection to the stream          moveUp                    joinup.go
//	move down: from the stream to the connection        moveDown                  joindown.go
//	rest while nothing comes, and wake when it does     restUp, Wake; setResting, streamChanged
//	end each direction, and tell the owner              endDirection, tellOwner   joinends.go
//	end both: close the connection                      Cut, close                join.go
//
// All of them are a pump's, which owns the connection.

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

// Owner owns what a pump moves bytes between. It is told when the pump is over and its connection is closed.
type Owner interface{ Done() }

// DirectionOwner also hears of the end of each direction of a pump. Its methods may block for a short time.
type DirectionOwner interface {
	// Up is called when the connection's bytes have all been sent, with nil, or when that
	// has failed, and Down likewise for the stream's bytes. Each is called once at most,
	// and Up not after the stream's end: then the pump is over when Down has returned.
	// They report whether nothing more must be moved either way; then they have closed
	// the stream.
	Up(j Joined, err error) (over bool)
	Down(j Joined, err error) (over bool)
	Owner
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
func (s *Stream) Join(conn net.Conn, first []byte, t *Terms, ends DirectionOwner) Joined {
	j, up := s.JoinUp(conn, first, t, ends)
	go panics.Contain(t.Log, nil, up)()
	return j
}

// JoinUp is Join for a caller whose goroutine has nothing else to do: it must call up, which
// moves the connection's bytes until none have come for some time.
func (s *Stream) JoinUp(conn net.Conn, first []byte, t *Terms, ends DirectionOwner) (j Joined, up func()) {
	return s.join(conn, first, t, ends)
}

// JoinTarget is Join for the end of a stream that a client did not open, with the
// connection that was made for it. The end of one direction is passed on as a half-close
// if the client takes that, and else ends both.
func (s *Stream) JoinTarget(conn net.Conn, t *Terms, owner Owner) Joined {
	j, up := s.join(conn, nil, t, owner)
	go panics.Contain(t.Log, nil, up)()
	return j
}

func (s *Stream) join(conn net.Conn, first []byte, t *Terms, owner Owner) (_ Joined, up func()) {
	j := &pump{terms: t, s: s, owner: owner, up: moving, left: 2, restedAt: sinceZero()}
	j.conn.Init(conn, j)
	j.canRest = j.conn.MayRest()
	j.sink.to = j
	if j.conn.Tries() {
		j.sink.try = j
	}
	s.setSink(&j.sink)
	s.pump.Store(j)
	if s.ended.Load() {
		j.hurry()
	}
	if s.readable() {
		j.streamChanged()
	}
	return j, panics.Contain(t.Log, j.upPanicked, func() { j.moveUp(first) })
}

// readable reports whether a reader has something to do: there are bytes, or there will be none.
func (s *Stream) readable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.buf.n > 0 || s.readErrLocked() != nil
}

// pump moves the bytes of a stream and a connection both ways: it is a Joined.
type pump struct {
	terms *Terms
	owner Owner // a DirectionOwner, if terms has no Reason
	s     *Stream
	sink  sink
	conn  idle.Conn
	// rested is when up began to rest; the goroutine that moves up owns it.
	restedAt time.Duration

	mu       sync.Mutex // guards what follows
	up, down motion
	again    bool // the stream has changed while down was moving
	over     bool // neither direction has anything to do any more
	dropping bool // what comes for the target is dropped: see dropRest
	left     int8 // directions that have not ended; Done is called after the last

	canRest bool // a goroutine need not wait for the connection; never changes
}

// timeZero is what times of a pump count from: they take less memory so.
var timeZero = time.Now()

func sinceZero() time.Duration { return time.Since(timeZero) }

// motion is what a direction does.
type motion uint8

const (
	resting motion = iota // nothing waits for it but the poller, or the channel's reader
	moving                // in a goroutine
	ended
)

// setMoving reports whether a resting direction moves now.
func (j *pump) setMoving(m *motion) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *m != resting {
		return false
	}
	*m = moving
	return true
}

// setResting reports whether a direction has nothing to do now.
func (j *pump) setResting(m *motion) bool {
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
		j.restedAt = sinceZero()
	}
	*m = resting
	return true
}

func (j *pump) isOver() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// countDone counts a direction that has ended.
func (j *pump) countDone() {
	if j.countEnded(1) {
		j.close()
	}
}

// countEnded reports whether the last direction is among n that have ended.
func (j *pump) countEnded(n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left -= int8(n)
	return n > 0 && j.left == 0
}

// Cut implements Joined: the directions that rest end at once, the others when the
// connection or the stream shows that it is closed.
func (j *pump) Cut() {
	n, first := j.setOver()
	if !first {
		return
	}
	j.conn.Close()
	if j.countEnded(n) {
		j.close()
	}
}

// setOver ends the directions that rest, and returns their number.
func (j *pump) setOver() (n int, first bool) {
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

func (j *pump) close() {
	j.conn.Close()
	j.owner.Done()
}
