package stream

import (
	"errors"
	"syscall"

	"github.com/chivenet/chive/internal/cell"
)

// CloseWrite implements Joined.
func (j *joint) CloseWrite() error { return j.conn.CloseWrite() }

// Reset implements Joined.
func (j *joint) Reset() {
	j.conn.Reset()
	j.Cut()
}

// stop notes the end of a direction.
func (j *joint) stop(m *motion, err error) {
	tell, first := j.stops(m)
	if !first {
		return
	}
	// When the stream has ended, nothing can be sent any more. That ends up, but nothing else
	// before down has written what came until then.
	over := j.s.ended.Load()
	tell = tell && !(over && m == &j.up)
	if tell && j.say(m, err) || over && j.done(&j.down) {
		j.Cut()
	}
	j.part()
}

// stops reports whether a direction ends now, and whether the caller of Join does not
// know that yet.
func (j *joint) stops(m *motion) (tell, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *m == ended {
		return false, false
	}
	*m = ended
	return !j.over, true
}

func (j *joint) loss() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

func (j *joint) done(m *motion) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *m == ended
}

// say tells of the end of a direction. It reports whether nothing more must be moved.
func (j *joint) say(m *motion, err error) (over bool) {
	switch up := m == &j.up; {
	case j.terms.Reason == nil && up:
		return j.owner.(Ends).Up(j, err)
	case j.terms.Reason == nil:
		return j.owner.(Ends).Down(j, err)
	case up:
		return j.targetUp(err)
	}
	return j.targetDown(err)
}

// targetUp passes the end of a target's bytes on.
func (j *joint) targetUp(err error) (over bool) {
	switch {
	case err != nil:
		return j.fail(j.terms.Reason(err))
	case !j.s.HalfClose() || j.loss():
		// END closes both directions, so the end of the target's bytes ends both.
		return j.fail(cell.EndDone)
	}
	_ = j.s.CloseWrite() // an error says that the circuit is closed, as the stream does
	return false
}

// targetDown passes the end of the client's bytes on.
func (j *joint) targetDown(err error) (over bool) {
	if err != nil {
		return j.fail(j.terms.Reason(err))
	}
	err = j.conn.CloseWrite()
	if err == nil || errors.Is(err, syscall.ENOTCONN) && !j.done(&j.up) {
		return false // a target that has closed: what it sent before may not be passed on yet
	}
	return j.fail(cell.EndDone)
}

func (j *joint) fail(r cell.EndReason) (over bool) {
	_ = j.s.CloseReason(r) // an error says that the circuit is closed
	return true
}

// brokeUp and brokeDown end all after a panic.
func (j *joint) brokeUp(err error)   { j.broke(&j.up, err) }
func (j *joint) brokeDown(err error) { j.broke(&j.down, err) }

func (j *joint) broke(m *motion, err error) {
	_ = j.s.CloseReason(cell.EndInternal) // an error says that the circuit is closed
	if tell, first := j.stops(m); first && tell {
		j.say(m, err)
	}
	j.Cut()
	j.part()
}
