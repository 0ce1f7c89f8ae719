package ethnode

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/sidecar"
	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/programtest"
)

var update = flag.Bool("update", false, "write the table of chive-eth in docs/metrics.md")

// noOnions are the onions of a sidecar that does not run.
type noOnions struct{ devp2p.Onions }

// TestMetrics: docs/metrics.md has what a node and a sidecar count, and promtool finds nothing to complain
// of.
func TestMetrics(t *testing.T) {
	m := program.NewMetrics()
	New(Config{Chain: chainOf(t)}).Register(m)
	const file, begin, end = "../../../docs/metrics.md", "<!-- chive-eth: begin -->\n", "<!-- chive-eth: end -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, began := bytes.Cut(page, []byte(begin))
	have, tail, ended := bytes.Cut(rest, []byte(end))
	side, err := sidecar.New(sidecar.Config{IPC: "geth.ipc", Dir: t.TempDir(), Onions: noOnions{}})
	if err != nil {
		t.Fatal(err)
	}
	sm := program.NewMetrics()
	side.Register(sm)
	want := "\n" + m.Table("chive-eth relay") + "\n" + sm.Table("chive-eth sidecar") + "\n"
	switch {
	case !began || !ended:
		t.Fatalf("%s has no table of chive-eth", file)
	case string(have) == want:
	case *update:
		if err := os.WriteFile(file, bytes.Join([][]byte{head, []byte(begin + want + end), tail}, nil), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: go test -C devp2p -run TestMetrics ./internal/ethnode -update", file)
	}
	for _, m := range []*program.Metrics{m, sm} {
		var text strings.Builder
		if err := m.Write(&text); err != nil {
			t.Fatal(err)
		}
		programtest.LintMetrics(t, text.String())
	}
}
