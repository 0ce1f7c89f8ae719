package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
)

// TestSeries: labels of one look are added up, and a counter that begins anew has no rate then.
func TestSeries(t *testing.T) {
	rows := [][]string{
		{"0", "guard", `x_total{a="1"}`, "10"}, {"0", "guard", `x_total{a="2"}`, "5"}, {"0", "guard", "xy_total", "99"},
		{"2", "guard", `x_total{a="1"}`, "20"}, {"2", "guard", `x_total{a="2"}`, "5"},
		{"3", "guard", "x_total", "1"}, {"4", "guard", "x_total", "4"},
		{"0", "exit", "x_total", "7"},
	}
	got, nodes, err := lines{metric: "x_total", rate: true, scale: 2}.series(rows)
	if err != nil || !slices.Equal(nodes, []string{"guard"}) || !slices.Equal(got["guard"], plotter.XYs{{X: 2, Y: 10}, {X: 4, Y: 6}}) {
		t.Error(got, nodes, err)
	}
	got, nodes, err = lines{metric: "x_total", scale: 1}.series(rows)
	if err != nil || !slices.Equal(nodes, []string{"exit", "guard"}) || got["guard"][0] != (plotter.XY{X: 0, Y: 15}) || len(got["guard"]) != 4 {
		t.Error(got, nodes, err)
	}
	for _, bad := range [][]string{{"x", "a", "x_total", "1"}, {"1", "a", "x_total", "x"}} {
		if _, _, err := (lines{metric: "x_total"}).series([][]string{bad}); err == nil {
			t.Error(bad, "is accepted")
		}
	}
}

// TestDraw: figures come from the files alone; those without values are left out.
func TestDraw(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(MetricsName, "seconds,node,metric,value\n0,guard,up,1\n0,guard,chive_relay_cells_out_total,3\n1,guard,up,1\n1,guard,chive_relay_cells_out_total,5\n")
	write(SamplesName, "circuit,handshake,failed,total_ms\n1,pq768,,12.5\n1,ntor-v3,no,\n2,pq768,,13\n")
	names, err := Draw(dir)
	if err != nil || !slices.Equal(names, []string{"cells", "up", "build"}) {
		t.Fatal(names, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "build.svg")); err != nil || !strings.Contains(string(b), "pq768") || strings.Contains(string(b), "ntor-v3") {
		t.Error(err)
	}
	write(SamplesName, "circuit,handshake,failed,total_ms\n1,pq768,,x\n")
	if _, err := Draw(dir); err == nil || !strings.Contains(err.Error(), SamplesName+":2") {
		t.Error(err)
	}
	write(SamplesName, "circuit,handshake\n")
	if _, err := Draw(dir); err == nil {
		t.Error("a table without times is accepted")
	}
	write(MetricsName, "")
	if _, err := Draw(dir); err == nil {
		t.Error("an empty table is accepted")
	}
}
