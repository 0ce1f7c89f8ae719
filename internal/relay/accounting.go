package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/hibernate"
)

// Accounting limits the bytes of a day, a week or a month.
type Accounting struct {
	Max     uint64 // bytes; 0: no limit
	Rule    hibernate.Rule
	Periods hibernate.Periods // nil: months
}

// accounting counts the relay's bytes against its limit, says what the relay may do, and keeps
// the count on the disk. The zero value has no limit.
type accounting struct {
	path string
	log  *slog.Logger
	seed []byte // the relay's own, and always the same

	mu      sync.Mutex // guards what follows
	max     uint64
	meter   *hibernate.Meter // nil: no limit
	state   hibernate.State
	changed chan struct{} // closed when state changes; nil: nobody waits
	last    [2]uint64     // the counters of bytes at the last call of tick
	when    time.Time     // of that call
	record  record
}

// accountingStatus is what others may know of it.
type accountingStatus struct {
	State     hibernate.State
	Max, Used uint64
	Interval  hibernate.Interval
	Wake      time.Time
}

// limitBytes takes a limit over, at the start and when the configuration changes. Rate is the
// relay's limit of bytes a second; 0: none.
func (a *accounting) limitBytes(c Accounting, rate uint64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Max == 0 {
		if a.meter != nil {
			a.saveLocked(now)
			a.meter, a.max = nil, 0
			a.log.Info("accounting: there is no limit of bytes any more")
		}
		a.enterLocked(hibernate.Awake)
		return
	}
	l := hibernate.Limit{Max: c.Max, Rule: c.Rule, Periods: c.Periods, Rate: rate, Seed: a.seed}
	if l.Periods == nil {
		l.Periods = months
	}
	a.max = c.Max
	if a.meter == nil {
		a.meter = hibernate.NewMeter(l, a.loadLocked(now), now)
	} else {
		a.meter.Set(l, now)
	}
	a.tellLocked()
	a.enterLocked(a.meter.State(now))
}

// months are the intervals of a relay that names no others.
var months = func() hibernate.Schedule {
	s, err := hibernate.ParseSchedule(hibernate.DefaultSchedule)
	if err != nil {
		panic(err) // it is a constant, which a test parses
	}
	return s
}()

// tick takes the counters of bytes read and written; it is called every second.
func (a *accounting) tick(now time.Time, read, written uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, out, since := read-a.last[0], written-a.last[1], now.Sub(a.when)
	a.last, a.when = [2]uint64{read, written}, now
	if a.meter == nil {
		return
	}
	start := a.meter.Interval().Start
	state := a.meter.Add(now, since, in, out)
	if !a.meter.Interval().Start.Equal(start) {
		a.tellLocked()
	}
	a.enterLocked(state)
	a.keepLocked(now)
}

// tellLocked logs the present interval.
func (a *accounting) tellLocked() {
	iv := a.meter.Interval()
	a.log.Info("accounting: an interval has a limit of bytes", "begins", iv.Start, "ends", iv.End, "limit", a.max, "used", a.meter.Used(), "serves_from", a.meter.Wake())
}

// enterLocked takes a state over.
func (a *accounting) enterLocked(s hibernate.State) {
	if s == a.state {
		return
	}
	a.state = s
	switch s {
	case hibernate.Awake:
		a.log.Info("accounting: the relay serves again")
	case hibernate.Soft:
		a.log.Info("accounting: little is left of the limit, so the relay takes no new connections, circuits and streams", "limit", a.max, "used", a.meter.Used(), "ends", a.meter.Interval().End)
	case hibernate.Dormant:
		until, used := a.meter.Wake(), a.meter.Used()
		if used >= a.max {
			until = a.meter.Interval().End
		}
		a.log.Info("accounting: the relay is dormant: its ports and links are closed", "until", until, "limit", a.max, "used", used)
	}
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
	a.record.urgent = true
}

// now returns the state, and a channel that is closed when it changes.
func (a *accounting) now() (hibernate.State, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.state, a.changed
}

// await waits until ok is true of the state; false: ctx is done.
func (a *accounting) await(ctx context.Context, ok func(hibernate.State) bool) bool {
	for ctx.Err() == nil {
		state, changed := a.now()
		if ok(state) {
			return true
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return false
}

func awake(s hibernate.State) bool      { return s == hibernate.Awake }
func dormant(s hibernate.State) bool    { return s == hibernate.Dormant }
func notDormant(s hibernate.State) bool { return s != hibernate.Dormant }

// status returns the present limit; Max is 0 if there is none.
func (a *accounting) status() accountingStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.meter == nil {
		return accountingStatus{}
	}
	return accountingStatus{State: a.state, Max: a.max, Used: a.meter.Used(), Interval: a.meter.Interval(), Wake: a.meter.Wake()}
}
