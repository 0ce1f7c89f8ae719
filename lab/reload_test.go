package lab_test

import (
	"context"
	"errors"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

// TestReloadClient excludes the exit that a client uses: the next stream uses the
// other exit.
func TestReloadClient(t *testing.T) {
	nw := start(t, lab.Options{Relays: 3, Exits: 2, Authorities: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit := func() string {
		t.Helper()
		f, err := nw.Fetch(ctx, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return f.Path[len(f.Path)-1].Fingerprint
	}
	first := exit()
	for range 3 {
		cfg := nw.Client.Config()
		cfg.ExcludeNodes = []string{first}
		if err := nw.Client.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		second := exit()
		if second == first {
			t.Fatal("an excluded relay is used")
		}
		first = second
	}
	for _, bad := range []func(*chive.Config){
		func(c *chive.Config) { c.ExcludeNodes = []string{"not a relay at all!"} },
		func(c *chive.Config) { c.DataDir, c.ExcludeNodes = t.TempDir(), nil },
	} {
		cfg := nw.Client.Config()
		bad(&cfg)
		if err := nw.Client.Reload(cfg); !errors.Is(err, chive.ErrConfig) {
			t.Errorf("%+v is taken: %v", cfg, err)
		}
	}
	if second := exit(); second != first {
		t.Error("a refused change took effect")
	}
}
