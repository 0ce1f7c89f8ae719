package daemon

import (
	"bytes"
	"sync"
)

// Bounds of what a logRing keeps: lines, and the bytes of each.
const (
	ringLines = 200
	ringLine  = 1000
)

// logRing keeps the last lines of the log, for requests on the status socket. The
// log is written to it too, so that its lines are redacted in the same way.
type logRing struct {
	mu    sync.Mutex // guards what follows
	lines [ringLines]string
	last  uint64 // the number of the newest; the first is 1
}

// Write takes one record, as slog's handlers write it.
func (r *logRing) Write(p []byte) (int, error) {
	line := bytes.TrimRight(p, "\n")
	if len(line) > ringLine {
		line = append(bytes.Clone(line[:ringLine]), "..."...)
	}
	s := string(bytes.ToValidUTF8(line, []byte("?")))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.lines[r.last%ringLines] = s
	return len(p), nil
}

// after returns the lines after a number, the oldest first. A number that is not yet given
// comes from another process: all lines follow it.
func (r *logRing) after(n uint64) logReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.last {
		n = 0
	}
	if r.last > ringLines {
		n = max(n, r.last-ringLines)
	}
	out := logReply{Lines: []string{}, Last: r.last}
	for n++; n <= r.last; n++ {
		out.Lines = append(out.Lines, r.lines[n%ringLines])
	}
	return out
}
