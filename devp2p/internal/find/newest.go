package find

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/devp2p/internal/nodelist"
	"github.com/chivenet/chive/program"
)

// newestFile is the file of a Newest.
const newestFile = "lists.json"

// The bounds of the file.
const (
	maxPlaces     = 256     // URLs; of more, those whose lists are the oldest are forgotten
	maxPublishers = 16      // of one URL: as many as a list has signatures
	maxNewest     = 1 << 20 // bytes
)

// Newest knows when the newest list was made that each publisher had at each URL, over restarts, too. A publisher's
// signature is good for a month: without this, whoever serves a list could go back to an older one in that time, and
// so hide the nodes that came since. A publisher may have several lists, so each URL counts by itself.
type Newest struct {
	path string // empty: in memory only

	mu sync.Mutex
	at map[string]map[string]time.Time // guarded by mu: by digestOf a URL, and by the publisher's key in hexadecimal
}

// OpenNewest reads what a directory keeps. What cannot be read is an error: to begin anew would take any old list.
func OpenNewest(dir string) (*Newest, error) {
	n := &Newest{path: filepath.Join(dir, newestFile)}
	raw, err := program.ReadRegular(n.path, maxNewest)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &n.at)
	}
	if err != nil {
		return nil, fmt.Errorf("%s says how new the lists of nodes are that were read, and cannot be read (without the file, a list of any age is taken again): %w", n.path, program.Why(err))
	}
	return n, nil
}

// digestOf stands for a URL in the file: there may be a password in it.
func digestOf(at string) string {
	sum := sha256.Sum256([]byte(at))
	return hex.EncodeToString(sum[:])
}

// errOld says that a list is older than one that was read at the same URL before.
type errOld struct{ got, want time.Time }

func (e *errOld) Error() string {
	return fmt.Sprintf("the list was made on %s, and one of %s was read there before: it was set back, and nothing of it is taken",
		e.got.Format(time.RFC3339), e.want.Format(time.RFC3339))
}

// errNotKept says that a list is new, and that this cannot be kept for the next start.
type errNotKept struct{ err error }

func (e *errNotKept) Error() string { return e.err.Error() }
func (e *errNotKept) Unwrap() error { return e.err }

// take notes that a list was read at a URL. It is an *errOld if one of the trusted publishers had a newer one there,
// whoever signed this one. A publisher that is not trusted any more does not count.
func (n *Newest) take(at string, trusted []ed25519.PublicKey, l *nodelist.List) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	place := digestOf(at)
	for _, key := range trusted {
		if before := n.at[place][hex.EncodeToString(key)]; l.Published.Before(before) {
			return &errOld{l.Published, before}
		}
	}
	changed := false
	for _, key := range l.Signers {
		of := hex.EncodeToString(key)
		if n.at[place][of].Equal(l.Published) {
			continue
		}
		if n.at == nil {
			n.at = make(map[string]map[string]time.Time)
		}
		if n.at[place] == nil {
			n.at[place] = make(map[string]time.Time)
		}
		n.at[place][of], changed = l.Published, true
	}
	if !changed {
		return nil
	}
	bound(n.at[place], maxPublishers, func(t time.Time) time.Time { return t })
	bound(n.at, maxPlaces, func(all map[string]time.Time) (last time.Time) {
		for _, t := range all {
			if t.After(last) {
				last = t
			}
		}
		return last
	})
	if n.path == "" {
		return nil
	}
	raw, err := json.Marshal(n.at)
	if err == nil {
		err = program.WriteFile(n.path, raw, 0o600)
	}
	if err != nil {
		return &errNotKept{err}
	}
	return nil
}

// bound forgets the oldest entries of a map that has too many.
func bound[V any](m map[string]V, most int, when func(V) time.Time) {
	if len(m) <= most {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(when(m[a]).Compare(when(m[b])), cmp.Compare(a, b))
	})
	for _, k := range oldest[:len(m)-most] {
		delete(m, k)
	}
}
