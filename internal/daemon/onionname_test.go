package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestReloadOfNames: a service keeps its name, and a reload with another one is refused;
// whether its address is said may change.
func TestReloadOfNames(t *testing.T) {
	const file = "socks=\"\"\n[[onion]]\nkey-dir=\"/a\"\nport=\"80\"\n%s\n[[onion]]\nkey-dir=\"/b\"\nport=\"80\"\n%s\n"
	f := newFakes(t)
	if err := f.start(hostingsOf(t, fmt.Sprintf(file, "", "name=\"blog\"\nhide-address=true"))); err != nil {
		t.Fatal(err)
	}
	f.watch(t.Context(), func(lines ...string) {
		for _, l := range lines {
			f.said <- l
		}
	})
	none := func() error { return nil }
	for _, names := range [][2]string{{"name=\"shop\"", "name=\"blog\""}, {"", "name=\"diary\""}, {"", ""}} {
		err := f.reload(hostingsOf(t, fmt.Sprintf(file, names[0], names[1])), none)
		if err == nil || !strings.Contains(err.Error(), "Name: this cannot change") || f.made["/a"].reloads+f.made["/b"].reloads > 0 {
			t.Errorf("%q: %v", names, err)
		}
	}
	// The address of the one is hidden now, and the other's is not any more.
	if err := f.reload(hostingsOf(t, fmt.Sprintf(file, "name=\"1\"\nhide-address=true", "name=\"blog\"")), none); err != nil {
		t.Fatal(err)
	}
	f.next(t, "onion atb.onion blog")
	if got := f.lines(); !slices.Equal(got, []string{"onion atb.onion blog"}) || len(f.said) > 0 {
		t.Errorf("%q", got)
	}
	if err := f.reload(hostingsOf(t, fmt.Sprintf(file, "hide-address=true", "name=\"blog\"")), none); err != nil || len(f.said) > 0 {
		t.Errorf("the same again: %v", err)
	}
}
