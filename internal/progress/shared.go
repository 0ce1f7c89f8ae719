package progress

import (
	"io"
	"os"
	"strings"
	"sync"
)

// Shared is a terminal that a bar and other lines, such as a log's, share: a bar
// stays on the last line, below what is written.
type Shared struct {
	w io.Writer

	mu  sync.Mutex // guards what follows
	bar string     // drawn on the last line; empty: none
}

// Share returns w if it is no terminal, and otherwise a Shared for it.
func Share(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return &Shared{w: w}
}

// Write writes lines above the bar.
func (s *Shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" {
		io.WriteString(s.w, clear)
	}
	n, err := s.w.Write(p)
	if strings.HasSuffix(string(p), "\n") {
		io.WriteString(s.w, s.bar)
	}
	return n, err
}

// draw writes control codes and the bar's new line.
func (s *Shared) draw(codes, bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bar = bar
	io.WriteString(s.w, codes+bar)
}

// File returns the file under w, or nil.
func File(w io.Writer) *os.File {
	if s, ok := w.(*Shared); ok {
		w = s.w
	}
	f, _ := w.(*os.File)
	return f
}
