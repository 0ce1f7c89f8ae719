package cbt

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"

	"github.com/chivenet/chive/internal/fault"
)

// stateVersion is the version of the saved form.
const stateVersion = 1

// maxStateSize bounds what Decode reads: 1,000 bins are under 32 KiB.
const maxStateSize = 64 << 10

// savedState is the saved form: the histogram, as pairs of a bin's midpoint in
// milliseconds and its count. The recent outcomes are not saved (path-spec
// 2.4.5).
type savedState struct {
	Version int         `json:"version"`
	Bins    [][2]uint32 `json:"bins"`
}

// Encode returns the state to save across restarts, as JSON.
func (e *Estimator) Encode() []byte {
	s := savedState{Version: stateVersion, Bins: [][2]uint32{}}
	for _, b := range e.history.bins() {
		s.Bins = append(s.Bins, [2]uint32{b.mid, b.count})
	}
	out, err := json.Marshal(s)
	if err != nil {
		panic(err) // integers always have a JSON form
	}
	return out
}

// Decode makes an estimator from the output of Encode. rnd puts the times into
// random order.
func Decode(b []byte, p Params, rnd *rand.Rand) (*Estimator, error) {
	if len(b) > maxStateSize {
		return nil, fault.New(fault.Local, "circuit build times: %d bytes, over %d", len(b), maxStateSize)
	}
	var s savedState
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fault.New(fault.Local, "circuit build times: %w", err)
	}
	if d.More() {
		return nil, fault.New(fault.Local, "circuit build times: data after the end")
	}
	if s.Version != stateVersion {
		return nil, fault.New(fault.Local, "circuit build times: version %d, not %d", s.Version, stateVersion)
	}
	var times []uint32
	last := int64(-1)
	for _, b := range s.Bins {
		mid, n := b[0], b[1]
		if mid > math.MaxInt32 || mid != midpoint(mid) || int64(mid) <= last {
			return nil, fault.New(fault.Local, "circuit build times: bin at %d ms is out of order or not a midpoint", mid)
		}
		if n == 0 || int(n) > historyLen-len(times) {
			return nil, fault.New(fault.Local, "circuit build times: bin at %d ms counts %d, out of bounds", mid, n)
		}
		last = int64(mid)
		for range n {
			times = append(times, mid)
		}
	}
	e := New(p)
	if !p.Disabled {
		e.shuffled(times, rnd)
	}
	return e, nil
}
