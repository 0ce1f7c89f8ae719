package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/tools/metricrows"
	"github.com/chivenet/chive/lab"
)

// TestAlertRules has promtool read the alert rules, and try them on series of which each
// rule must fire on one and not on another.
func TestAlertRules(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "chive-alerts.yml"}, {"test", "rules", "chive-alerts-test.yml"}} {
		cmd := exec.CommandContext(bounded(t, patience), labtest.Promtool(t), args...)
		cmd.Dir = "../contrib/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// expressions are those of the dashboard, by the titles of their panels.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../contrib/grafana/chive.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := metricrows.ReadDashboard(text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	row := ""
	for _, p := range d.Panels {
		if p.Type == "row" {
			row = p.Title
		}
		for _, q := range p.Targets {
			title := row + ": " + p.Title
			all[title] = append(all[title], metricrows.Concrete(q.Expr))
		}
	}
	return all
}

// TestDashboardExpressions has promtool read the expressions of the dashboard.
func TestDashboardExpressions(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for _, exprs := range expressions(t) {
		for _, e := range exprs {
			fmt.Fprintf(&b, "  - {record: \"dashboard:%d\", expr: %q}\n", n, e)
			n++
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(bounded(t, patience), labtest.Promtool(t), "check", "rules", file).CombinedOutput()
	if want := fmt.Sprintf("SUCCESS: %d rules found", n); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDashboardData runs each program and a Prometheus that reads their metrics: each
// panel of the dashboard has something to show, and each alert rule can be evaluated.
// (The programs of devp2p/ have a module of their own, and are not here.)
func TestDashboardData(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	labtest.Need(t, "prometheus", err)
	bin := command(t)
	ctx := bounded(t, patience)
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	rules, err := filepath.Abs("../contrib/prometheus/chive-alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n", rules)
	for _, p := range metricPrograms(t, nw) {
		config += fmt.Sprintf("- {job_name: chive-%s, static_configs: [{targets: [%q]}]}\n", p.name, p.start(t, bin))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := exec.Command(prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address, "--log.level=warn")
	cmd.Dir, cmd.Stderr = dir, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()

	type question struct{ panel, expr string }
	lacking := map[question]bool{}
	for title, exprs := range expressions(t) {
		for _, e := range exprs {
			if !strings.HasPrefix(title, "chive-eth") {
				lacking[question{title, e}] = true
			}
		}
	}
	if len(lacking) < 60 {
		t.Errorf("only %d expressions", len(lacking))
	}
	for len(lacking) > 0 {
		for q := range lacking {
			var found struct{ Result []any }
			if prometheusAsk(ctx, address, "query?query="+url.QueryEscape(q.expr), &found) == nil && len(found.Result) > 0 {
				delete(lacking, q)
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("nothing to show for %d expressions: %v", len(lacking), lacking)
		case <-time.After(200 * time.Millisecond):
		}
	}
	var groups struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := prometheusAsk(ctx, address, "rules", &groups); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				t.Errorf("the rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if n < 20 {
		t.Errorf("Prometheus has %d rules", n)
	}
}

// prometheusAsk asks Prometheus' API.
func prometheusAsk(ctx context.Context, address, what string, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/"+what, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}
