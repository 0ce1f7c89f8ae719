package lab_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// logText collects the logs of a network.
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

// TestStartAsksNothingTwice: when a network starts, some relays have no directory
// yet. The client gets all documents from those that have one, without a pause,
// and cancels no request. A request that takes three seconds gets a second one
// beside it, which is right. So a start on such a slow machine proves nothing,
// and the test starts another network.
func TestStartAsksNothingTwice(t *testing.T) {
	labtest.NoLeaks(t)
	for try := 1; ; try++ {
		twice, took := askedTwice(t)
		if took < 3*time.Second || len(twice) == 0 {
			for _, line := range twice {
				t.Error(line)
			}
			return
		}
		t.Logf("the client took %v to start: %s", took, strings.Join(twice, "\n"))
		if try == 5 {
			t.Skip("SKIPPED, NOTHING WAS TESTED: the machine is too slow")
		}
	}
}

// askedTwice starts a network and returns the log lines of its client about
// repeated or failed requests, and how long the start took.
func askedTwice(t *testing.T) (twice []string, took time.Duration) {
	t.Helper()
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
			twice = append(twice, strings.TrimSpace(line))
		}
	}
	for _, s := range nw.Stages {
		if s.Name == "client" {
			took = s.Took
		}
	}
	return twice, took
}
