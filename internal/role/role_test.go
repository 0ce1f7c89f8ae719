package role

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

var errEnd = errors.New("an end")

func TestLife(t *testing.T) {
	l := Start(slog.New(slog.DiscardHandler), func(ctx context.Context) error { <-ctx.Done(); return errEnd }, func() error { return nil })
	select {
	case <-l.Done():
		t.Fatal("it ended at once")
	default:
	}
	if err := l.Err(); err != nil {
		t.Errorf("it runs, and says %v", err)
	}
	for range 2 {
		if err := l.Close(); err != errEnd {
			t.Errorf("Close returned %v", err)
		}
	}
	if err := l.Err(); err != nil {
		t.Errorf("it was asked to end, and says %v", err)
	}
}

func TestLifeEndsByItself(t *testing.T) {
	for _, end := range []error{errEnd, nil} {
		l := Start(nil, func(context.Context) error { return end }, func() error { return nil })
		<-l.Done()
		if err := l.Err(); err == nil || end != nil && err != end {
			t.Errorf("it ended with %v, and says %v", end, err)
		}
		if err := l.Close(); err != end {
			t.Errorf("Close returned %v", err)
		}
	}
}

// TestChange: while the role runs, it can be changed; a change that is under way
// ends before the role gives back what it has, and none comes after.
func TestChange(t *testing.T) {
	var released, changed bool
	var l *Life
	started := make(chan struct{})
	l = Start(nil, func(ctx context.Context) error { <-started; <-ctx.Done(); return nil }, func() error {
		released = true
		if !changed {
			t.Error("the role ended during a change")
		}
		return errEnd
	})
	close(started)
	if err := l.Change(func() error { return errEnd }); err != errEnd {
		t.Error(err)
	}
	if err := l.Change(func() error { l.Stop(); runtime.Gosched(); changed = true; return nil }); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, errEnd) || !released {
		t.Errorf("Close returned %v", err)
	}
	if err := l.Change(func() error { t.Error("a change after the end"); return nil }); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

// text stands for the network in a configuration: it has a text form.
type text string

func (t *text) MarshalText() ([]byte, error) { return []byte(*t), nil }

type config struct {
	Network *text
	Log     *slog.Logger
	Names   []string
	Params  map[string]int
	Rate    int      `reload:"live"`
	Nodes   []string `reload:"live"`
}

func TestReload(t *testing.T) {
	log, one, same, other := slog.New(slog.DiscardHandler), text("one"), text("one"), text("other")
	running := config{Network: &one, Log: log, Names: nil, Rate: 1}
	for _, good := range []config{
		running,
		{Network: &same, Log: log, Names: []string{}, Params: map[string]int{}, Rate: 2, Nodes: []string{"a"}},
	} {
		if err := CheckReload(&running, &good); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for want, bad := range map[string]config{
		"Network": {Network: &other, Log: log}, "Network, Log": {}, "Log": {Network: &one, Log: slog.New(slog.DiscardHandler)},
		"Names, Params": {Network: &one, Log: log, Names: []string{"a"}, Params: map[string]int{"a": 1}, Rate: 3},
	} {
		err := CheckReload(&running, &bad)
		if !errors.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), "reload: "+want+": ") {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
		KeepFixed(&running, &bad)
		if err := CheckReload(&running, &bad); err != nil {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	next := config{Rate: 9, Nodes: []string{"b"}}
	KeepFixed(&running, &next)
	if next.Rate != 9 || len(next.Nodes) != 1 || next.Network != &one {
		t.Errorf("what may change was kept: %+v", next)
	}
}
