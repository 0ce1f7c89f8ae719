package stream

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/idle"
	"github.com/chivenet/chive/internal/nonblock"
	"github.com/chivenet/chive/internal/panics"
)

// Joint says what happens at the ends of Join. The functions may block for a short time.
type Joint struct {
	// Up is called when the connection's bytes have all been sent, with nil, or when that
	// has failed, and Down likewise for the stream's bytes. Each is called once at most.
	// They report whether nothing more must be moved either way; then they have closed
	// the stream.
	Up, Down func(err error) (over bool)
	// Done is called at the end, when the connection is closed.
	Done func()
	// Whole says that the connection is closed as soon as the stream is over both ways,
	// and its bytes are written: nobody waits for the end of the connection's bytes.
	Whole bool
	// Flush returns how long the connection may take to read what came before the
	// circuit closed, and each chunk of what came before the stream ended; nil: as long
	// as it likes.
	Flush func() time.Duration
	Log   *slog.Logger
}

// Join moves bytes both ways between the stream and a connection, in the background. The
// caller must not use the connection after that, but call cut to end all. first has bytes
// that the connection has already given.
// While nothing moves, a joined socket has no goroutine and no buffer: the channel's
// reader writes to it, and one goroutine of the process waits for all such sockets.
func (s *Stream) Join(conn net.Conn, first []byte, how Joint) (cut func()) {
	j := &joint{Joint: how, s: s, conn: conn, up: moving, down: moving, left: 2}
	j.sink = newSink(conn)
	j.sink.to = j
	if raw := socket(conn); raw != nil {
		// After an error, a goroutine waits.
		j.socket, _ = idle.Watch(raw, j)
	}
	s.setSink(&j.sink)
	s.joint.Store(j)
	if s.ended.Load() {
		j.hurry()
	}
	go panics.Contain(how.Log, j.brokeUp, func() { j.moveUp(first) })()
	go panics.Contain(how.Log, j.brokeDown, j.moveDown)()
	return j.cut
}

// JoinTarget is Join for the end of a stream that a client did not open, with the
// connection that was made for it. how needs no Up, Down and Whole. reason says what the
// client is told of an error of the connection. The end of one direction is passed on as a
// half-close if the client takes that, and else ends both.
func (s *Stream) JoinTarget(conn net.Conn, reason func(error) cell.EndReason, how Joint) (cut func()) {
	fail := func(r cell.EndReason) bool {
		_ = s.CloseReason(r) // an error says that the circuit is closed
		return true
	}
	how.Whole = true
	how.Up = func(err error) bool {
		if err != nil {
			return fail(reason(err))
		}
		if s.HalfClose() {
			_ = s.CloseWrite() // an error says that the circuit is closed, as the stream does
			return false
		}
		// END closes both directions, so the end of the target's bytes ends both.
		return fail(cell.EndDone)
	}
	how.Down = func(err error) bool {
		if err != nil {
			return fail(reason(err))
		}
		if c, ok := conn.(interface{ CloseWrite() error }); !ok || c.CloseWrite() != nil {
			return fail(cell.EndDone)
		}
		return false
	}
	return s.Join(conn, nil, how)
}

// joint is a stream that is joined to a connection.
type joint struct {
	Joint
	s      *Stream
	conn   net.Conn
	sink   sink
	socket *idle.Socket // nil: a goroutine waits for the connection
	// rested is when up began to rest; whoever moves up owns it.
	rested time.Time

	mu       sync.Mutex // guards what follows
	up, down motion
	again    bool // the stream has changed while down was moving
	over     bool // neither direction has anything to do any more
	left     int  // directions that have not ended; Done is called after the last
}

// motion is what a direction does.
type motion uint8

const (
	resting motion = iota // nothing waits for it but the poller, or the channel's reader
	moving                // in a goroutine
	ended
)

// A direction from a connection rests at once if nothing came for longer than patience
// before; otherwise its goroutine waits for as long. So a connection in use does not
// start a goroutine for each message, and a goroutine is never idle for long.
const patience = 100 * time.Millisecond

// Wake implements idle.Waker: it continues to move up, because the connection has
// something to read.
func (j *joint) Wake() {
	defer panics.Recover(j.Log, j.brokeUp)
	if j.start(&j.up) {
		j.moveUp(nil)
	}
}

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

// moveUp moves bytes from the connection to the stream until there is nothing to read.
func (j *joint) moveUp(first []byte) {
	if len(first) > 0 {
		if _, err := j.s.Write(first); err != nil {
			j.end(&j.up, j.Up, err)
			return
		}
	}
	f := newSource(j.conn, j.s.account)
	defer f.drop()
	patient := j.socket == nil || time.Since(j.rested) < patience
	var until time.Time // the connection's read deadline
	for {
		if patient && j.socket != nil {
			if now := time.Now(); until.Sub(now) < patience/2 {
				until = now.Add(patience)
				_ = j.conn.SetReadDeadline(until) // the read shows the same error
			}
		}
		b, err := f.read(patient)
		if len(b) > 0 {
			if _, werr := j.s.Write(b); werr != nil {
				err = werr
			}
		}
		switch {
		case err == nil:
		case j.socket != nil && (err == nonblock.ErrWait || errors.Is(err, os.ErrDeadlineExceeded)):
			f.drop()
			if !until.IsZero() {
				_ = j.conn.SetReadDeadline(time.Time{}) // the next read shows the same error
				until = time.Time{}
			}
			if j.rest() {
				return
			}
			patient = true // the poller does not work
		default:
			j.end(&j.up, j.Up, eof(err))
			return
		}
	}
}

// rest has the poller wait for the connection; then another goroutine may move up
// already when it returns.
func (j *joint) rest() bool {
	if j.setResting(&j.up) {
		if j.socket.Wait() == nil {
			return true
		}
		return !j.start(&j.up)
	}
	return false // the read shows why
}

// moveDown writes what was received to the connection. After that the channel's reader
// writes to it.
func (j *joint) moveDown() {
	for {
		over, err := j.s.drain(&j.sink)
		if over {
			j.end(&j.down, j.Down, err)
			return
		}
		if j.setResting(&j.down) {
			return
		}
		if j.isOver() {
			j.end(&j.down, j.Down, net.ErrClosed)
			return
		}
	}
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
		j.rested = time.Now()
	}
	*m = resting
	return true
}

func (j *joint) isOver() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// changed tells the joint that there is something to read from the stream, or that its
// state has changed. The stream's mu may be held.
func (j *joint) changed() {
	move, cut := j.note()
	if move {
		go panics.Contain(j.Log, j.brokeDown, j.moveDown)()
	}
	if cut {
		go panics.Contain(j.Log, nil, j.cut)()
	}
}

// note says what a change of the stream asks for: to move down, or to end all.
func (j *joint) note() (move, cut bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch j.down {
	case resting:
		j.down = moving
		return true, false
	case moving:
		j.again = true
		return false, false
	}
	return false, j.Whole && !j.over && j.s.ended.Load()
}

// Write writes to the connection, for moveDown. A stream that has ended does not hear of
// the circuit's end, so each write that comes then has a bound of its own.
func (j *joint) Write(p []byte) (int, error) {
	if j.s.ended.Load() && !j.s.circuitClosed() {
		j.hurry()
	}
	return j.conn.Write(p)
}

// hurry bounds the time of writes to the connection: the stream has ended, or its circuit
// has, and nothing else wakes a goroutine that writes to a peer which reads nothing.
func (j *joint) hurry() {
	if j.Flush != nil {
		_ = j.conn.SetWriteDeadline(time.Now().Add(j.Flush())) // an error says that it is closed
	}
}

// end notes the end of a direction.
func (j *joint) end(m *motion, say func(error) bool, err error) {
	tell, first := j.ends(m)
	if !first {
		return
	}
	if tell && say(err) || j.Whole && j.done(&j.down) && j.s.ended.Load() {
		j.cut()
	}
	j.part()
}

// ends reports whether a direction ends now, and whether the caller of Join does not
// know that yet.
func (j *joint) ends(m *motion) (tell, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *m == ended {
		return false, false
	}
	*m = ended
	return !j.over, true
}

func (j *joint) done(m *motion) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *m == ended
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
	j.left -= n
	return n > 0 && j.left == 0
}

// cut ends both directions: those that rest at once, the others when the connection or
// the stream shows that it is closed. It does not close the stream.
func (j *joint) cut() {
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
	if j.socket != nil {
		j.socket.Forget()
	}
	j.conn.Close()
	j.Done()
}

// brokeUp and brokeDown end all after a panic.
func (j *joint) brokeUp(err error)   { j.broke(&j.up, j.Up, err) }
func (j *joint) brokeDown(err error) { j.broke(&j.down, j.Down, err) }

func (j *joint) broke(m *motion, say func(error) bool, err error) {
	_ = j.s.CloseReason(cell.EndInternal) // an error says that the circuit is closed
	if tell, first := j.ends(m); first && tell {
		say(err)
	}
	j.cut()
	j.part()
}

// eof returns nil for the end of the data.
func eof(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
