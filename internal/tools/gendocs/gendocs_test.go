package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/command/commandtest"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/tools/metricrows"
)

// TestTorrcPage: docs/moving-from-c-tor.md is what the table gives.
func TestTorrcPage(t *testing.T) {
	have, err := os.ReadFile("../../../docs/moving-from-c-tor.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, torrcPage()) {
		t.Error("docs/moving-from-c-tor.md is out of date: go run ./internal/tools/gendocs torrc docs/moving-from-c-tor.md")
	}
}

// TestMetricsRows: docs/metrics.md has a row for each metric that the programs have, with what
// they say of it, and the names are as Prometheus wants them.
func TestMetricsRows(t *testing.T) {
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := metricrows.Read(page)
	for _, s := range cli.MetricSources {
		r := new(metrics.Registry)
		s.Describe(r)
		all := r.Families()
		if len(all) < 5 {
			t.Errorf("%s: only %d metrics", s.Title, len(all))
		}
		for _, f := range all {
			i := slices.IndexFunc(rows, func(r metricrows.Row) bool { return r.Name == f.Name && slices.Equal(r.Commands, s.Commands) })
			if i < 0 {
				t.Errorf("docs/metrics.md has no row of %s for %v: go run ./internal/tools/gendocs metrics docs/metrics.md", f.Name, s.Commands)
				continue
			}
			if row := rows[i]; row.Type != f.Type || row.Meaning != f.Help || row.Unit != metricrows.Unit(f.Name, f.Help) || (row.Labels == "") != (len(f.Labels) == 0) {
				t.Errorf("docs/metrics.md says of %s: %+v, and the program %+v", f.Name, row, f)
			}
			if strings.HasSuffix(f.Name, "_total") != (f.Type == "counter") || !strings.HasSuffix(f.Help, ".") || strings.ToUpper(f.Help[:1]) != f.Help[:1] {
				t.Errorf("%s, a %s: %q", f.Name, f.Type, f.Help)
			}
		}
	}
	if _, err := metricsPage([]byte("no tables here")); err == nil {
		t.Error("a page without a place for the tables is taken")
	}
}

// TestMetricsCommands: the commands in the tables have the option --metrics.
func TestMetricsCommands(t *testing.T) {
	for _, s := range cli.MetricSources {
		for _, name := range s.Commands {
			c, rest, err := cli.Chive().Find(strings.Fields(name)[1:])
			if err != nil || len(rest) > 0 || c.CommandPath() != name || c.Flag("metrics") == nil {
				t.Errorf("%s: %v, %v", name, c.CommandPath(), err)
			}
		}
	}
}

// TestOptionsPage: docs/options.md is what the tables give.
func TestOptionsPage(t *testing.T) {
	have, err := os.ReadFile("../../../docs/options.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, optionsPage(cli.Chive())) {
		t.Error("docs/options.md is out of date: go run ./internal/tools/gendocs options docs/options.md")
	}
	for _, want := range []string{
		"\n| `num-entry-guards` | NUMBER, 0 to 20 | as the consensus says |  | NUMBER of guards for traffic |\n",
		"\n| `exit-policy` | LINES, several, between commas | the relay is no exit | live | LINES of what may leave here, such as 'accept \\*:443,",
		"\n| `--cert` | CERTIFICATE |  | chive client: ",
	} {
		if !bytes.Contains(have, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

// TestManPages: every command has a page that tells all of its flags, and that man(1) reads
// without a warning.
func TestManPages(t *testing.T) {
	pages := commandtest.Manual(t, cli.Chive())
	for _, name := range []string{"chive.1", "chive-proxy.1", "chive-config-check-authority.1", "chive-fte-keygen.1"} {
		if pages[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if pages["chive-lab.1"] != nil || pages["chive-help.1"] != nil {
		t.Error("a hidden command has a page")
	}
	relay := string(pages["chive-relay.1"])
	for _, want := range []string{
		".SH NAME\nchive\\-relay \\- Run a relay",
		"\\fB\\-\\-contact\\fR \\fITEXT\\fR\nTEXT by which others reach you, such as an address of mail; everybody can read\nit.\nSIGHUP is enough for a change.\n",
		"\nValues: at least 32 MiB.\nDefault: two fifths", ".SS Bridge\n", ".SH SEE ALSO\n.BR chive (1)\n",
	} {
		if !strings.Contains(relay, want) {
			t.Errorf("chive-relay.1 lacks %q", want)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	if err := run([]string{"man", dir + "/man1"}); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"options", dir + "/options.md"}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"/man1/chive.1", "/options.md"} {
		if st, err := os.Stat(dir + f); err != nil || st.Size() < 500 {
			t.Errorf("%s: %v", f, err)
		}
	}
	if run(nil) == nil || run([]string{"html", dir}) == nil {
		t.Error("nonsense is accepted")
	}
}
