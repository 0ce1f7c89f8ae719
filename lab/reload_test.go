package lab_test

import (
	"context"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

// TestReloadClient takes the exit that a client uses away from it: the next
// stream goes by the other.
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
		if err := nw.Client.Reload(chive.Config{ExcludeNodes: []string{first}}); err != nil {
			t.Fatal(err)
		}
		second := exit()
		if second == first {
			t.Fatal("an excluded relay is used")
		}
		first = second
	}
	if err := nw.Client.Reload(chive.Config{ExcludeNodes: []string{"not a relay at all!"}}); err == nil {
		t.Error("nonsense is taken")
	}
	if second := exit(); second != first {
		t.Error("a refused change took effect")
	}
}
