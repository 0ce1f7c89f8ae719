package relay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hibernate"
)

// accountingFile, in the data directory, has the bytes of the present interval: they count
// after a restart too.
const accountingFile = "accounting.json"

// maxAccountingFile bounds the file, in bytes.
const maxAccountingFile = 16 << 10

// How often the file is written, at most and at least: see keepLocked.
const (
	recordPause    = time.Minute
	recordInterval = 10 * time.Minute
	recordBytes    = 20 << 20
)

// record says what the file has.
type record struct {
	urgent bool // the state has changed since
	count  hibernate.Count
	tried  time.Time // when it was last written, or could not be
}

// keepLocked writes the file when the state changes, and otherwise as C tor does, after ten minutes
// or 20 MB with new bytes, but once a minute at most. So a relay that crashes may use the bytes
// of a minute twice, and a fast one does not write all the time.
func (a *accounting) keepLocked(now time.Time) {
	c, old := a.meter.Count(), a.record.count
	age := now.Sub(a.record.tried)
	early := age >= 0 && age < recordPause
	switch moved := (c.Read - old.Read) + (c.Written - old.Written); {
	case a.record.urgent:
	case early || reflect.DeepEqual(c, old), age >= 0 && age < recordInterval && moved < recordBytes && c.Start.Equal(old.Start):
		return
	}
	a.saveLocked(now)
}

// saveLocked writes the file.
func (a *accounting) saveLocked(now time.Time) {
	c := a.meter.Count()
	a.record.urgent, a.record.tried = false, now
	text, err := json.MarshalIndent(c, "", "\t")
	if err == nil {
		err = atomicfile.Write(a.path, append(text, '\n'), atomicfile.Secret)
	}
	if err != nil {
		a.log.Warn("accounting: the bytes of this interval are not on the disk: after a restart they do not count", "err", fault.Wrap(fault.Local, err))
		return
	}
	a.record.count = c
}

// save writes the file when the relay ends.
func (a *accounting) save(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.meter != nil {
		a.saveLocked(now)
	}
}

// loadLocked returns the count in the file; without one, or with one that cannot be, the zero
// Count.
func (a *accounting) loadLocked(now time.Time) hibernate.Count {
	var c hibernate.Count
	text, err := atomicfile.ReadRegular(a.path, maxAccountingFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil && !c.Sane(now) {
		err = fault.New(fault.Local, "it says what cannot be")
	}
	if err != nil {
		a.log.Warn("accounting: the saved bytes of this interval cannot be read: they are counted from 0", "file", accountingFile, "err", err)
		return hibernate.Count{}
	}
	a.record.count = c
	return c
}
