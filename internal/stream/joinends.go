package stream

import (
	"errors"
	"syscall"

	"github.com/chivenet/chive/internal/cell"
)

// CloseWrite implements Joined.
func (j *pump) CloseWrite() error { return j.conn.CloseWrite() }

// Reset implements Joined.
func (j *pump) Reset() {
	j.conn.Reset()
	j.Cut()
}

// endDirection notes the end of a direction.
func (j *pump) endDirection(m *motion, err error) {
	tell, first := j.setEnded(m)
	if !first {
		return
	}
	// When the stream has ended, nothing can be sent any more. That ends up, but nothing else
	// before down has written what came until then.
	over := j.s.ended.Load()
	tell = tell && !(over && m == &j.up)
	if tell && j.tellOwner(m, err) || over && j.hasEnded(&j.down) {
		j.Cut()
	}
	j.countDone()
}

// setEnded reports whether a direction ends now, and whether the caller of Join does not
// know that yet.
func (j *pump) setEnded(m *motion) (tell, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *m == ended {
		return false, false
	}
	*m = ended
	return !j.over, true
}

func (j *pump) dropsRest() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropping
}

func (j *pump) hasEnded(m *motion) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *m == ended
}

// tellOwner tells of the end of a direction. It reports whether nothing more must be moved.
func (j *pump) tellOwner(m *motion, err error) (over bool) {
	switch up := m == &j.up; {
	case j.terms.Reason == nil && up:
		return j.owner.(DirectionOwner).Up(j, err)
	case j.terms.Reason == nil:
		return j.owner.(DirectionOwner).Down(j, err)
	case up:
		return j.targetUp(err)
	}
	return j.targetDown(err)
}

// targetUp passes the end of a target's bytes on.
func (j *pump) targetUp(err error) (over bool) {
	switch {
	case err != nil:
		return j.fail(j.terms.Reason(err))
	case !j.s.HalfClose() || j.dropsRest():
		// END closes both directions, so the end of the target's bytes ends both.
		return j.fail(cell.EndDone)
	}
	_ = j.s.CloseWrite() // an error says that the circuit is closed, as the stream does
	return false
}

// targetDown passes the end of the client's bytes on.
func (j *pump) targetDown(err error) (over bool) {
	if err != nil {
		return j.fail(j.terms.Reason(err))
	}
	err = j.conn.CloseWrite()
	if err == nil || errors.Is(err, syscall.ENOTCONN) && !j.hasEnded(&j.up) {
		return false // a target that has closed: what it sent before may not be passed on yet
	}
	return j.fail(cell.EndDone)
}

func (j *pump) fail(r cell.EndReason) (over bool) {
	_ = j.s.CloseReason(r) // an error says that the circuit is closed
	return true
}

// upPanicked and downPanicked end all after a panic.
func (j *pump) upPanicked(err error)   { j.endAfterPanic(&j.up, err) }
func (j *pump) downPanicked(err error) { j.endAfterPanic(&j.down, err) }

func (j *pump) endAfterPanic(m *motion, err error) {
	_ = j.s.CloseReason(cell.EndInternal) // an error says that the circuit is closed
	if tell, first := j.setEnded(m); first && tell {
		j.tellOwner(m, err)
	}
	j.Cut()
	j.countDone()
}
