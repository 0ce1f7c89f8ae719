package authority

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// history is the uptime history of a relay. Times are weighted, so that old ones
// count less (C tor's rephist).
type history struct {
	Since    time.Time // when the present run or outage began
	Up       bool
	LastSeen time.Time
	// Weighted seconds: running; known; and the sums over runs that have ended.
	UpTime, Known, RunTime float64
	Runs                   float64 // weighted number of runs that have ended
	Updated                time.Time
}

// Weights are multiplied by alpha every twelve hours.
const (
	historyAlpha = 0.95
	historyStep  = 12 * time.Hour
	// enoughHistory is how long an authority watches before its measurements
	// of stability count.
	enoughHistory = 4 * time.Hour
	// forgetAfter is the time after which a relay that was not seen is forgotten.
	forgetAfter = 60 * 24 * time.Hour
)

// histories are the histories of all relays.
type histories struct {
	Started time.Time
	Of      map[string]*history // by identity in hexadecimal
}

// note records whether a relay runs. A relay that never ran has no history.
func (h *histories) note(id ident.RSAID, up bool, now time.Time) {
	r := h.Of[id.String()]
	if r == nil {
		if !up {
			return
		}
		if h.Of == nil {
			h.Of = map[string]*history{}
		}
		r = &history{Since: now, Up: up, Updated: now}
		h.Of[id.String()] = r
	}
	r.advance(now)
	if up {
		r.LastSeen = now
	}
	if r.Up == up {
		return
	}
	if r.Up {
		r.RunTime += r.running(now)
		r.Runs++
	}
	r.Up, r.Since = up, now
}

// running returns the length of the present run in seconds: 0 if its start lies
// in the future because the clock was ahead.
func (r *history) running(now time.Time) float64 { return max(0, now.Sub(r.Since).Seconds()) }

// advance brings the sums up to date.
func (r *history) advance(now time.Time) {
	d := now.Sub(r.Updated)
	if d <= 0 {
		return
	}
	w := math.Pow(historyAlpha, float64(d)/float64(historyStep))
	r.UpTime, r.Known, r.RunTime, r.Runs = r.UpTime*w, r.Known*w, r.RunTime*w, r.Runs*w
	r.Known += d.Seconds()
	if r.Up {
		r.UpTime += d.Seconds()
	}
	r.Updated = now
}

// known returns for how many weighted seconds a relay has been known.
func (h *histories) known(id ident.RSAID) float64 {
	if r := h.Of[id.String()]; r != nil {
		return r.Known
	}
	return 0
}

// maxHistories bounds the relays that are remembered.
const maxHistories = 1 << 17

// forget drops relays that have not been seen for forgetAfter and, if there are
// too many, those that were known for the shortest time.
func (h *histories) forget(now time.Time) {
	for id, r := range h.Of {
		if now.Sub(r.Updated) > forgetAfter || (!r.LastSeen.IsZero() && now.Sub(r.LastSeen) > forgetAfter) {
			delete(h.Of, id)
		}
	}
	if n := len(h.Of) - maxHistories; n > 0 {
		ids := slices.Collect(maps.Keys(h.Of))
		slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(h.Of[a].Known, h.Of[b].Known) })
		for _, id := range ids[:n] {
			delete(h.Of, id)
		}
	}
}

// record has the figures of a relay's history that votes use.
type record struct {
	wfu  float64 // weighted fractional uptime
	tk   float64 // weighted time known, seconds
	mtbf float64 // mean time between failures, seconds
	run  float64 // length of the present run, seconds
}

func (h *histories) record(id ident.RSAID, now time.Time) record {
	r := h.Of[id.String()]
	if r == nil {
		return record{}
	}
	r.advance(now)
	out := record{tk: r.Known}
	if r.Known > 0 {
		out.wfu = r.UpTime / r.Known
	}
	run, runs := r.RunTime, r.Runs
	if r.Up {
		out.run = r.running(now)
		run, runs = run+out.run, runs+1
	}
	if runs > 0 {
		out.mtbf = run / runs
	}
	return out
}

func (h *histories) enough(now time.Time) bool { return now.Sub(h.Started) > enoughHistory }
