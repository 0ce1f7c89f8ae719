package daemon

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"time"
)

// processors has a process that has little to do run its goroutines on one processor.
// When a goroutine wakes another one, Go's scheduler wakes a second processor if it is
// idle, which looks for work for some time. If there is little work, that second one only
// takes time from other processes: a connection to an onion service passes many of them
// on its way, and took a tenth longer.
type processors struct {
	used func() (time.Duration, error) // processor time of the process so far
	set  func(all bool)
	log  *slog.Logger
}

const (
	// loadEvery is the time between two looks at the load. A process that begins to work
	// has one processor for so long.
	loadEvery = 500 * time.Millisecond
	// busyShare and calmShare are parts of one processor: a process that uses more than
	// the first gets all of them, and one that uses less than the second for calmLooks
	// looks gets one.
	busyShare, calmShare = 0.5, 0.25
	calmLooks            = 4
)

// newProcessors returns nil if GOMAXPROCS in the environment says how many processors
// there are, or if there is but one.
func newProcessors(log *slog.Logger) *processors {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return nil
	}
	return &processors{processTime, func(all bool) {
		if all {
			runtime.SetDefaultGOMAXPROCS()
		} else {
			runtime.GOMAXPROCS(1)
		}
	}, log}
}

// run follows the load until ctx ends.
func (p *processors) run(ctx context.Context) {
	if p == nil {
		return
	}
	t := time.NewTicker(loadEvery)
	defer t.Stop()
	defer p.set(true) // what ends may have much to do
	var l load
	var before time.Duration
	for at := time.Now(); ; {
		used, err := p.used()
		if err != nil {
			p.log.Debug("the processor time is not known", "err", err)
			return
		}
		now := time.Now()
		if since := now.Sub(at); before > 0 && since > 0 && l.changes(float64(used-before)/float64(since)) {
			p.set(!l.one)
		}
		before, at = used, now
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// load decides how many processors a process gets. The zero load has all of them.
type load struct {
	one  bool
	calm int // looks in a row at a calm process
}

// changes takes a look at the part of one processor that the process has used since the
// last look, and reports whether one has changed.
func (l *load) changes(share float64) bool {
	if l.calm++; share > calmShare {
		l.calm = 0
	}
	before := l.one
	switch {
	case share > busyShare:
		l.one = false
	case l.calm >= calmLooks:
		l.one = true
	}
	return l.one != before
}
