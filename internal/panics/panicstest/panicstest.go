// Package panicstest is for tests of what a contained panic leaves.
package panicstest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/panics"
)

// Expect has panics contained until the test ends, as they are outside tests, and
// then fails the test unless there were want of them: nothing that may panic may
// run any more, and no other test beside it.
func Expect(t testing.TB, want uint64) {
	t.Helper()
	end := panics.Expect()
	t.Cleanup(func() {
		if got := end(); got != want {
			t.Errorf("%d panics were contained, %d wanted", got, want)
		}
	})
}

// Log keeps what is logged. The zero value is ready.
type Log struct {
	mu sync.Mutex // guards what follows
	b  bytes.Buffer
}

// Logger returns a logger whose lines l keeps.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write keeps b; it is slog's.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// Panics returns the lines that tell of a contained panic.
func (l *Log) Panics() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, panics.Logged) {
			out = append(out, line)
		}
	}
	return out
}
