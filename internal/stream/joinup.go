package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/nonblock"
	"github.com/chivenet/chive/internal/panics"
)

// A direction from a connection rests at once if nothing came for longer than patience
// before; otherwise its goroutine waits for as long. So a connection in use does not
// start a goroutine for each message, and a goroutine is never idle for long.
const patience = 100 * time.Millisecond

// Wake implements idle.Waker: it continues to move up, because the connection has
// something to read.
func (j *pump) Wake() {
	defer panics.Recover(j.terms.Log, j.upPanicked)
	if j.setMoving(&j.up) {
		j.moveUp(nil)
	}
}

// moveUp moves bytes from the connection to the stream until there is nothing to read.
func (j *pump) moveUp(first []byte) {
	if len(first) > 0 {
		if _, err := j.s.Write(first); err != nil {
			j.endDirection(&j.up, err)
			return
		}
	}
	f := newSource(nil, j.s.account)
	defer f.drop()
	for patient := !j.canRest || sinceZero()-j.restedAt < patience && j.conn.Known(); ; patient = true {
		var err error
		if patient {
			err = j.readWaiting(f)
		} else {
			f.raw = &j.conn
			err = j.pour(f, false)
		}
		if !j.canRest || err != nonblock.ErrWait {
			j.endDirection(&j.up, j.endOfData(err))
			return
		}
		f.drop()
		if j.restUp() {
			return
		}
		// The poller does not work, or the pump is over: the next read shows that.
	}
}

// pour moves what can be read; wait says that it waits for more. It returns why it ends.
func (j *pump) pour(f *source, wait bool) error {
	for {
		b, err := f.read(wait)
		if len(b) > 0 {
			tally(j.terms.Up, len(b))
			if _, werr := j.s.Write(b); werr != nil {
				return werr
			}
		}
		if err != nil {
			return err
		}
	}
}

// readWaiting moves bytes until none have come for some time.
func (j *pump) readWaiting(f *source) error {
	conn, raw, err := j.conn.Hold(true)
	if err != nil {
		return err
	}
	defer j.conn.Release()
	f.r, f.raw = conn, nil
	if !j.canRest {
		return j.pour(f, true)
	}
	f.raw = &impatient{conn: conn, raw: raw}
	defer conn.SetReadDeadline(time.Time{}) // the next read shows the same error
	return j.pour(f, true)
}

// impatient is a socket that a reader waits for a short time only.
type impatient struct {
	conn  net.Conn
	raw   rawReader
	until time.Time // the read deadline
}

func (r *impatient) Read(f func(fd uintptr) (done bool)) error {
	if now := time.Now(); r.until.Sub(now) < patience/2 {
		r.until = now.Add(patience)
		_ = r.conn.SetReadDeadline(r.until) // the read shows the same error
	}
	err := r.raw.Read(f)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nonblock.ErrWait
	}
	return err
}

// restUp has the poller wait for the connection; then another goroutine may move up
// already when it returns.
func (j *pump) restUp() bool {
	if j.setResting(&j.up) {
		if j.conn.Rest() == nil {
			return true
		}
		return !j.setMoving(&j.up)
	}
	return false
}

// endOfData returns nil for the end of the data.
func (j *pump) endOfData(err error) error {
	switch {
	case err != io.EOF:
		return err
	case j.conn.Failed():
		return syscall.ECONNRESET
	}
	return nil
}
