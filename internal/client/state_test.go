package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeGuards change when told to, and note when they were saved.
type fakeGuards struct {
	changed chan struct{}
	full    bool
	saves   []time.Time
}

func (g *fakeGuards) Changed() <-chan struct{}   { return g.changed }
func (g *fakeGuards) Tick(_ time.Time) time.Time { return time.Time{} }
func (g *fakeGuards) Save() error {
	g.saves = append(g.saves, time.Now())
	if g.full {
		return errors.New("no space left on device")
	}
	return nil
}

// TestGuardSaves: the first change is saved at once, those that follow it every
// ten seconds; a disk that is full is tried, and written of, once a minute.
func TestGuardSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var log bytes.Buffer
		g := &fakeGuards{changed: make(chan struct{})}
		go keepGuards(ctx, g, slog.New(slog.NewTextHandler(&log, nil)))
		start := time.Now()
		busy := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				g.changed <- struct{}{}
			}
			synctest.Wait()
		}
		g.changed <- struct{}{}
		synctest.Wait()
		if len(g.saves) != 1 || !g.saves[0].Equal(start) {
			t.Fatalf("the first change: saved at %v", g.saves)
		}
		busy(30 * time.Second)
		time.Sleep(time.Minute)
		if n := len(g.saves); n != 4 {
			t.Fatalf("%d times in half a minute of changes: %v", n, g.saves)
		}
		g.saves, g.full = nil, true
		busy(3 * time.Minute)
		if n, lines := len(g.saves), strings.Count(log.String(), "cannot be saved"); n < 3 || n > 4 || lines != n {
			t.Fatalf("%d times with a full disk, %d lines", n, lines)
		}
		g.saves, g.full = nil, false
		time.Sleep(2 * time.Minute)
		if len(g.saves) != 1 {
			t.Fatalf("what could not be saved was saved %d times when it could", len(g.saves))
		}
	})
}
