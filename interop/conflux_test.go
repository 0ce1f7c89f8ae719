package interop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	chive "github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestConflux: Chive's client makes conflux sets with C tor's exits, and streams over them
// arrive whole in both directions.
func TestConflux(t *testing.T) {
	t.Parallel()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw := network(t, "vanilla")
	defer quiet(t, nw)()
	d := nw.Description()
	c := inNetwork(t, &d, "conflux", func(cfg *chive.Config) { cfg.Conflux = chive.SwitchOn })
	if err := download(bounded(t, patience), c, shared.target.Addr(target.Source), windows); err != nil {
		t.Error(err)
	}
	if err := upload(bounded(t, patience), c, shared.target.Addr(target.Sink), windows); err != nil {
		t.Error(err)
	}
	if n := metric(t, c, "chive_conflux_sets_total"); n == 0 {
		t.Error("no set was linked")
	}
}

// metric returns the value of a client's counter.
func metric(t *testing.T, c *chive.Client, name string) (n float64) {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteMetrics(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
