package lab_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/labtest"
)

// logText is what a network logs.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestStartAsksNothingTwice: where a network begins, relays have no directory
// yet. The client gets all of it from those that have, without a pause, and
// breaks off no request of its own.
func TestStartAsksNothingTwice(t *testing.T) {
	labtest.NoLeaks(t)
	var said logText
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := nw.Close(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(said.String()) {
		if !strings.Contains(line, "node=client") {
			continue
		}
		if strings.Contains(line, "trying again") || strings.Contains(line, "directory request failed") && strings.Contains(line, "not needed any more") {
			t.Error(strings.TrimSpace(line))
		}
	}
}
