package guard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// maxStateSize bounds the saved state: a full sample is under 100 KiB.
const maxStateSize = 4 << 20

// Store keeps the state of a Manager across restarts.
type Store interface {
	// Load returns the state that was saved last, or an error that is
	// fs.ErrNotExist.
	Load() ([]byte, error)
	// Save replaces the saved state completely or not at all.
	Save([]byte) error
	// SetAside moves the saved state away and keeps it, so that a person can
	// inspect it.
	SetAside() error
}

// FileStore is a Store in the file of that name. Only the owner can read the
// file. SetAside appends ".corrupt" to its name.
type FileStore string

// Load reads the file.
func (path FileStore) Load() ([]byte, error) {
	f, err := os.Open(string(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxStateSize+1))
}

// Save replaces the file as a whole.
func (path FileStore) Save(b []byte) error {
	return atomicfile.Write(string(path), b, atomicfile.Secret)
}

// SetAside renames the file.
func (path FileStore) SetAside() error { return os.Rename(string(path), string(path)+".corrupt") }

// MemStore is a Store in memory, which ends with the process. The zero value is
// empty.
type MemStore struct{ b []byte }

// Load returns the saved state.
func (s *MemStore) Load() ([]byte, error) {
	if s.b == nil {
		return nil, fs.ErrNotExist
	}
	return s.b, nil
}

// Save keeps b.
func (s *MemStore) Save(b []byte) error { s.b = b; return nil }

// SetAside drops the saved state.
func (s *MemStore) SetAside() error { s.b = nil; return nil }

// load fills the sets from the store.
func (m *Manager) load(now time.Time) error {
	b, err := m.store.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Local, "read guard state: %w", err)
	}
	sets, err := decode(b, now)
	if err != nil {
		m.log().Warn("guard state cannot be read; it is set aside, and new guards are chosen", "err", err)
		if err := m.store.SetAside(); err != nil {
			return fault.New(fault.Local, "set corrupt guard state aside: %w", err)
		}
		return nil
	}
	m.sets = sets
	return nil
}

// Changed receives a value when there is something to save. Path bias counts
// change with every circuit, so do not save at once, but some seconds later, and
// at the end.
func (m *Manager) Changed() <-chan struct{} { return m.changed }

// unsaved encodes the state if it changed since it was last saved, else nil.
func (m *Manager) unsaved() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirty {
		return nil
	}
	b := encode(m.sets)
	m.dirty = false
	return b
}

// Save saves the state if it changed since it was last saved.
func (m *Manager) Save() error {
	m.saving.Lock() // an older state must not overwrite a newer one
	defer m.saving.Unlock()
	b := m.unsaved()
	if b == nil {
		return nil
	}
	if err := m.store.Save(b); err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
		return fault.New(fault.Local, "save guard state: %w", err)
	}
	return nil
}
