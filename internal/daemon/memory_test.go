package daemon

import (
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
)

// TestSettle: a client of any kind collects garbage sooner once it is ready, others do not;
// and the program still runs after its pages were given back.
func TestSettle(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	code, err := findProgram()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role role
		want int
	}{{new(proxyRole), clientGC}, {new(onionRole), clientGC}, {new(relayRole), 100}, {new(authorityRole), 100}} {
		debug.SetGCPercent(100)
		settle(c.role, code, log)
		if got := debug.SetGCPercent(100); got != c.want {
			t.Errorf("%T: %d", c.role, got)
		}
	}
	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	settle(new(proxyRole), code, log)
	if got := debug.SetGCPercent(100); got != 70 {
		t.Errorf("GOGC is overridden by %d", got)
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
}
