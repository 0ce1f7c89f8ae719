package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestOnionsReloadErrors: a reload with a mistake changes nothing, whichever part has it.
func TestOnionsReloadErrors(t *testing.T) {
	const table = "[[onion]]\nkey-dir=\"%s\"\nport=\"80\"\n"
	f := newFakes(t)
	if err := f.start(hostingsOf(t, twoOnions)); err != nil {
		t.Fatal(err)
	}
	a, b := f.made["/a"], f.made["/b"]
	other := strings.Replace(twoOnions, "max-streams = 5", "max-streams = 6", 1)
	one, _, _ := strings.Cut(other, "[[onion]]\nkey-dir = \"/b\"") // b goes
	good := func() error { return nil }
	for name, c := range map[string]struct {
		file   string
		refuse error // of b
		rest   func() error
		want   []string
	}{
		"a service that stays":  {other + fmt.Sprintf(table, "/c"), errNoMore, good, []string{errNoMore.Error(), "/b"}},
		"a service that begins": {one + fmt.Sprintf(table, "/c") + fmt.Sprintf(table, "/bad"), nil, good, []string{"--sandbox"}},
		"a key of another's":    {other + fmt.Sprintf(table, "/c") + fmt.Sprintf(table, "/b+"), nil, good, []string{"its key is also in /b"}},
		"what else is reloaded": {one + fmt.Sprintf(table, "/c"), nil, func() error { return errNoMore }, []string{errNoMore.Error()}},
	} {
		a.reloads, b.reloads, b.refuse = 0, 0, c.refuse
		delete(f.made, "/c")
		err := f.reload(hostingsOf(t, c.file), c.rest)
		for _, want := range c.want {
			if err == nil || errors.As(err, new(partly)) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, without %s", name, err, want)
			}
		}
		if len(f.status()) != 2 || a.reloads+b.reloads > 0 || a.ended.Err() != nil || b.ended.Err() != nil {
			t.Errorf("%s: something has changed: %+v", name, f.status())
		}
		if made := f.made["/c"]; made != nil && made.ended.Err() == nil {
			t.Errorf("%s: a new service is left", name)
		}
	}
	g := newFakes(t)
	if err := g.start(hostingsOf(t, other+fmt.Sprintf(table, "/bad"))); err == nil || g.made["/a"].ended.Err() == nil || len(g.status()) != 0 {
		t.Errorf("a start with a mistake: %v", err)
	}
}

// TestOnionsReloadLate: what fails after all checks is named, and the rest is in use.
func TestOnionsReloadLate(t *testing.T) {
	f := newFakes(t)
	if err := f.start(hostingsOf(t, twoOnions)); err != nil {
		t.Fatal(err)
	}
	f.made["/a"].late = errNoMore
	rest := false
	err := f.reload(hostingsOf(t, twoOnions+"[[onion]]\nkey-dir=\"/c\"\nport=\"80\"\n"), func() error { rest = true; return nil })
	if !errors.As(err, new(partly)) || !errors.Is(err, errNoMore) || !strings.Contains(err.Error(), "/a") {
		t.Errorf("%v", err)
	}
	if !rest || len(f.status()) != 3 || f.made["/b"].reloads != 1 || f.made["/c"].ended.Err() != nil {
		t.Errorf("%+v", f.status())
	}
}

// TestOnionMoves: a service whose directory has another name now goes on from there, also
// with its name.
func TestOnionMoves(t *testing.T) {
	f := newFakes(t)
	if err := f.start(hostingsOf(t, twoOnions)); err != nil {
		t.Fatal(err)
	}
	err := f.reload(hostingsOf(t, strings.Replace(twoOnions, `"/b"`, `"/b+"`, 1)), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if st := f.status(); len(st) != 2 || st[1].Name != "blog" || f.made["/b"].ended.Err() == nil || f.made["/b+"].ended.Err() != nil {
		t.Errorf("%+v", st)
	}
}

// reloader is a node of which only the reload matters.
type reloader struct {
	node
	err error
}

func (r *reloader) reload(role) error { return r.err }

// TestReloadSaysWhatIsInUse: the log and the values that are in use follow what the node did.
func TestReloadSaysWhatIsInUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	s := NewProxySettings()
	if err := s.Load(file); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	n := &reloader{}
	p := &Process{Settings: s, node: n, inEffect: s.Texts(false), level: new(slog.LevelVar)}
	p.log = slog.New(slog.NewTextHandler(&log, nil))
	write("drain = '7s'\nlog-level = 'warn'")
	for _, c := range []struct {
		err         error
		want, drain string
		level       slog.Level
	}{
		{fault.New(fault.Config, "no"), "the settings in use stay\" err=no", "30s", slog.LevelInfo},
		{partly{fault.New(fault.Config, "one service")}, "old settings, or has ended\" err=\"one service\" changed=\"[drain log-level]\"", "7s", slog.LevelWarn},
	} {
		log.Reset()
		n.err = c.err
		p.reload()
		if got := log.String(); !strings.Contains(got, c.want) || p.inEffect["drain"] != c.drain || p.level.Level() != c.level {
			t.Errorf("%v: drain %s, level %s, log %s", c.err, p.inEffect["drain"], p.level.Level(), got)
		}
	}
}
