package rules

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/tools/metricrows"
)

// TestMetricsPage: the tables of docs/metrics.md are what the programs give. (What they have to
// say is tested in gendocs, and for chive-eth in its own module.)
func TestMetricsPage(t *testing.T) {
	have, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "metrics.md")
	if err := os.WriteFile(again, have, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "run", "./internal/tools/gendocs", "metrics", again).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, err := os.ReadFile(again)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("docs/metrics.md is out of date: go run ./internal/tools/gendocs metrics docs/metrics.md (%v)", err)
	}
}

// metricRows are the rows of docs/metrics.md.
func metricRows(t *testing.T) []metricrows.Row {
	t.Helper()
	page, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return metricrows.Read(page)
}

// TestMetricsUsed: the alert rules, their tests, the dashboard and the documents name only
// metrics that exist, and every kind of program is on the dashboard and has an alert.
func TestMetricsUsed(t *testing.T) {
	rows := metricRows(t)
	known := map[string]bool{}
	for _, r := range rows {
		known[r.Name] = true
	}
	files := []string{"contrib/prometheus/chive-alerts.yml", "contrib/prometheus/chive-alerts-test.yml", "contrib/grafana/chive.json"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		named := metricrows.Names(string(text), rows)
		for _, n := range named {
			if !known[n] {
				t.Errorf("%s: there is no metric %s", file, n)
			}
		}
		for _, kind := range []string{"chive_ready", "chive_port_", "chive_onion_", "chive_relay_", "chive_authority_", "chive_fte_", "chive_eth_"} {
			if !slices.ContainsFunc(named, func(n string) bool { return strings.HasPrefix(n, kind) }) {
				t.Errorf("%s: nothing about %s", file, kind)
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	code := regexp.MustCompile("`(chive_[a-z0-9_]+)[`{]")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			if n := metricrows.Names(m[1], rows)[0]; !known[n] && n != "chive_transaction" { // a method of chive-eth
				t.Errorf("%s: there is no metric %s", page, n)
			}
		}
	}
}

// TestAlertRules: each alert tells what is wrong and what to do, and its tests have it fire and
// have it not. (promtool runs them: see interop.)
func TestAlertRules(t *testing.T) {
	rules, err := os.ReadFile("contrib/prometheus/chive-alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("contrib/prometheus/chive-alerts-test.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := strings.Split(string(rules), "- alert: ")[1:]
	if len(alerts) < 20 {
		t.Errorf("only %d alerts", len(alerts))
	}
	for _, a := range alerts {
		name, text, _ := strings.Cut(a, "\n")
		for _, want := range []string{"expr: ", "severity: ", "summary: ", "description: "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
		for _, want := range []string{"- alertname: " + name + "\n", "{alertname: " + name + ", "} {
			if !strings.Contains(string(tests), want) {
				t.Errorf("%s: no test with %q", name, want)
			}
		}
	}
}

// TestDashboard: Grafana can read the dashboard, its panels do not lie on one another, and each
// asks for something.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("contrib/grafana/chive.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := metricrows.ReadDashboard(text)
	if err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 || len(d.Panels) < 40 {
		t.Errorf("%q %q, version %d, %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	var vars []string
	for _, v := range d.Templating.List {
		vars = append(vars, v.Name)
	}
	if !slices.Equal(vars, []string{"datasource", "job", "instance"}) {
		t.Errorf("variables %v", vars)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("a panel with the number %d and the title %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if o := taken[[2]int{x, y}]; o != "" {
					t.Fatalf("%s lies on %s", p.Title, o)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: %+v", p.Title, p)
		}
		for _, q := range p.Targets {
			if q.RefID == "" || q.LegendFormat == "" || !strings.Contains(q.Expr, `{job=~"$job",instance=~"$instance"`) {
				t.Errorf("%s: %+v", p.Title, q)
			}
		}
	}
}
