package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeGuards change when told to, and note when they were saved.
type fakeGuards struct {
	changed chan struct{}

	mu    sync.Mutex // guards what follows
	full  bool
	saves []time.Time
}

// taken returns when they were saved since it was last asked, and says whether
// the disk is full from now on.
func (g *fakeGuards) taken(full bool) []time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	saves := g.saves
	g.saves, g.full = nil, full
	return saves
}

func (g *fakeGuards) Changed() <-chan struct{}   { return g.changed }
func (g *fakeGuards) Tick(_ time.Time) time.Time { return time.Time{} }
func (g *fakeGuards) Save() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.saves = append(g.saves, time.Now())
	if g.full {
		return errors.New("no space left on device")
	}
	return nil
}

// TestSweepState: what a killed process was writing is removed, nothing else.
func TestSweepState(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"guards.json", ".guards.json.123.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	sweepState(&Config{Dir: dir, Log: log})
	sweepState(&Config{Dir: filepath.Join(dir, "none"), Log: log})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "guards.json" {
		t.Error(left, err)
	}
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
		if saves := g.taken(false); len(saves) != 1 || !saves[0].Equal(start) {
			t.Fatalf("the first change: saved at %v", saves)
		}
		busy(30 * time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if saves := g.taken(true); len(saves) != 3 {
			t.Fatalf("%d times in half a minute of changes: %v", len(saves), saves)
		}
		busy(3 * time.Minute)
		lines := strings.Count(log.String(), "cannot be saved")
		if n := len(g.taken(false)); n < 3 || n > 4 || lines != n {
			t.Fatalf("%d times with a full disk, %d lines", n, lines)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(g.taken(false)); n != 1 {
			t.Fatalf("what could not be saved was saved %d times when it could", n)
		}
	})
}
