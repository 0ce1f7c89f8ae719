package stream

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// moveDown writes what was received to the connection. After that the channel's reader
// writes to it.
func (j *pump) moveDown() {
	for {
		over, err := j.s.drain(&j.sink)
		if over && j.dropRest(err) {
			continue
		}
		if over {
			j.endDirection(&j.down, err)
			return
		}
		if j.setResting(&j.down) {
			return
		}
		if j.isOver() {
			j.endDirection(&j.down, net.ErrClosed)
			return
		}
	}
}

// dropRest says that what comes for the target is dropped from now on, if the target has closed:
// what it sent before that goes on to the client, which may have to be rid of its own bytes
// before it reads. The end of the target's bytes then ends both directions.
func (j *pump) dropRest(err error) bool {
	if j.terms.Reason == nil || !errors.Is(err, syscall.EPIPE) || j.s.ended.Load() || !j.startDropping() {
		return false
	}
	j.s.sinkMu.Lock()
	defer j.s.sinkMu.Unlock()
	j.sink = sink{to: io.Discard}
	return true
}

// startDropping notes that bytes are lost, unless the target's bytes have all been passed on.
func (j *pump) startDropping() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dropping = j.up != ended
	return j.dropping
}

// streamChanged tells the pump that there is something to read from the stream, or that its
// state has changed. The stream's mu may be held.
func (j *pump) streamChanged() {
	move, cut := j.noteChange()
	if move {
		go panics.Contain(j.terms.Log, j.downPanicked, func() { GrowStack(); j.moveDown() })()
	}
	if cut {
		go panics.Contain(j.terms.Log, nil, j.Cut)()
	}
}

// noteChange says what a change of the stream asks for: to move down, or to end all.
func (j *pump) noteChange() (move, cut bool) {
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
	return false, !j.over && j.s.ended.Load()
}

// Write writes to the connection, for moveDown. A stream that has ended does not hear of
// the circuit's end, so each write that comes then has a bound of its own.
func (j *pump) Write(p []byte) (int, error) {
	if j.s.ended.Load() && !j.s.circuitClosed() {
		j.hurry()
	}
	n, err := j.conn.Write(p)
	tally(j.terms.Down, n)
	return n, err
}

// TryWrite implements trier, for the channel's reader.
func (j *pump) TryWrite(p []byte) (int, error) {
	n, err := j.conn.TryWrite(p)
	tally(j.terms.Down, n)
	return n, err
}

// tally adds n to a counter of Terms, if there is one.
func tally(to *atomic.Uint64, n int) {
	if to != nil {
		to.Add(uint64(n))
	}
}

// hurry bounds the time of writes to the connection: the stream has ended, or its circuit
// has, and nothing else wakes a goroutine that writes to a peer which reads nothing.
func (j *pump) hurry() {
	if j.terms.Flush != nil {
		j.conn.SetWriteDeadline(time.Now().Add(j.terms.Flush()))
	}
}
