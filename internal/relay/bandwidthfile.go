package relay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// bandwidthFile, in the data directory, keeps the relay's measurements: after a
// restart the relay advertises the same bandwidth as before.
const bandwidthFile = "bandwidth.json"

// bandwidthState is the contents of the file. The pairs are bytes read and bytes
// written.
type bandwidthState struct {
	Saved time.Time              `json:"saved"`
	Day   time.Time              `json:"day"`         // when the present day began
	Best  [2][observeDays]uint64 `json:"best_10s"`    // bytes in ten seconds, by day; the present day first
	Total [2][]int64             `json:"whole_days"`  // bytes, the oldest first
	Today [2]uint64              `json:"present_day"` // bytes
}

// save writes the file.
func (b *bandwidth) save(dir string, now time.Time) error {
	b.mu.Lock()
	s := bandwidthState{Saved: now.UTC(), Day: b.day.UTC(), Best: b.best, Total: b.total, Today: b.today}
	text, err := json.MarshalIndent(s, "", "\t")
	b.mu.Unlock()
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, bandwidthFile), append(text, '\n'), atomicfile.Secret)
	}
	if err != nil {
		return fault.New(fault.Local, "bandwidth: %w", err)
	}
	return nil
}

// load reads the file, if it exists, before the first sample. Days that have
// passed since then count as days without traffic.
func (b *bandwidth) load(dir string, now time.Time) error {
	text, err := os.ReadFile(filepath.Join(dir, bandwidthFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Local, "bandwidth: %w", err)
	}
	var s bandwidthState
	if err := parseBandwidth(text, now, &s); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.day, b.best, b.total, b.today = s.Day, s.Best, s.Total, s.Today
	b.turnLocked(now)
	return nil
}

// maxDaily bounds the bytes of a day: a terabit a second.
const maxDaily = 125e9 * 86400

func parseBandwidth(text []byte, now time.Time, s *bandwidthState) error {
	if err := json.Unmarshal(text, s); err != nil {
		return fault.New(fault.Local, "bandwidth: %s: %w", bandwidthFile, err)
	}
	ok := !s.Day.IsZero() && !s.Day.After(now)
	for i := range s.Best {
		ok = ok && len(s.Total[i]) <= observeDays && s.Today[i] < maxDaily
		for _, v := range s.Total[i] {
			ok = ok && v >= 0 && v < maxDaily
		}
		for _, v := range s.Best[i] {
			ok = ok && v < maxDaily
		}
	}
	if !ok {
		return fault.New(fault.Local, "bandwidth: %s says what cannot be", bandwidthFile)
	}
	return nil
}
