package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/chivenet/chive/program"
)

const (
	journalName = "new-keys.json"
	// fresh marks what a change has made and not put in its place yet.
	fresh = ".new"
	// maxJournal bounds the file, in bytes.
	maxJournal = 64 << 10
)

// journal is a change under way. While its file is there, the new keys are complete, and some of them may be in
// their places.
type journal struct {
	Time   string   `json:"time"`   // for the names of what is kept
	Places []string `json:"places"` // of the keys, in the order of the change
}

// Pending reports whether a change of keys was interrupted in a data directory. Until New has finished it, some of
// the keys are old and some are new, and nothing may use them.
func Pending(dir string) (bool, error) { return there(filepath.Join(dir, journalName)) }

// readJournal returns nil if no change is under way.
func readJournal(dir string) (*journal, error) {
	path := filepath.Join(dir, journalName)
	raw, err := program.ReadRegular(path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := new(journal)
	if err := json.Unmarshal(raw, j); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, nil
}

func (j *journal) write(dir string) error {
	raw, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return program.WriteFile(filepath.Join(dir, journalName), raw, 0o600)
}

// matches refuses to finish a change of other keys than the flags name.
func (j *journal) matches(p places) error {
	if !slices.Equal(j.Places, p.files()) {
		return fmt.Errorf("a change of the keys %q was interrupted: finish it first, with the flags that it had", j.Places)
	}
	return nil
}

// clean removes new keys that were not put in their places.
func (j *journal) clean() error {
	var errs []error
	for _, p := range j.Places {
		errs = append(errs, os.RemoveAll(p+fresh))
	}
	return errors.Join(errs...)
}

// move is a rename that was done.
type move struct{ from, to string }

// apply keeps the old keys aside, and puts the new ones in their places, as far as this was not done. If it fails,
// it takes back what it has done.
func (j *journal) apply(dir string, rename func(from, to string) error) (kept []string, err error) {
	var done []move
	do := func(from, to string) error {
		if err := rename(from, to); err != nil {
			return err
		}
		done = append(done, move{from, to})
		return nil
	}
	for _, place := range j.Places {
		var k string
		if k, err = j.replace(place, do); err != nil {
			break
		}
		if k != "" {
			kept = append(kept, k)
		}
	}
	if err == nil {
		syncAll(j.Places)
		if err := os.Remove(filepath.Join(dir, journalName)); err != nil {
			return kept, fmt.Errorf("the keys have changed, but this file must go before anything uses them: %w", err)
		}
		return kept, nil
	}
	for _, m := range slices.Backward(done) {
		if back := rename(m.to, m.from); back != nil {
			return nil, errors.Join(fmt.Errorf("some keys are new and some are old: nothing may use them until the command is repeated and succeeds: %w", err), back)
		}
	}
	for _, place := range j.Places {
		if is, e := there(place + fresh); e != nil || !is {
			return nil, fmt.Errorf("the change that was interrupted could not be finished: nothing may use the keys until it is: %w", err)
		}
	}
	syncAll(j.Places)
	if e := os.Remove(filepath.Join(dir, journalName)); e != nil {
		return nil, errors.Join(err, e)
	}
	return nil, errors.Join(fmt.Errorf("no key has changed: %w", err), j.clean())
}

// replace changes one key, and returns where the old one is kept. A key whose new one is not there any more was
// changed before.
func (j *journal) replace(place string, do func(from, to string) error) (kept string, err error) {
	made, err := there(place + fresh)
	if err != nil {
		return "", err
	}
	aside, n := place+".old-"+j.Time, 1
	if !made {
		if is, err := there(aside); err != nil || !is {
			return "", err
		}
		return aside, nil
	}
	old, err := there(place)
	if err != nil {
		return "", err
	}
	if old {
		kept = aside
		for {
			// Between an interruption and this call, geth may have made a key of its own.
			is, err := there(kept)
			if err != nil {
				return "", err
			}
			if !is {
				break
			}
			n++
			kept = aside + "-" + strconv.Itoa(n)
		}
		if err := do(place, kept); err != nil {
			return "", err
		}
	} else if is, err := there(aside); err != nil {
		return "", err
	} else if is {
		kept = aside
	}
	return kept, do(place+fresh, place)
}

// syncAll makes renames durable where the file system can.
func syncAll(places []string) {
	for _, p := range places {
		if d, err := os.Open(filepath.Dir(p)); err == nil {
			_ = d.Sync() // not every file system supports it
			d.Close()
		}
	}
}
