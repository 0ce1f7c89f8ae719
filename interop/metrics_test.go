package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/tools/metricrows"
	"github.com/chivenet/chive/lab"
)

// TestMetricsLint runs each program, and has promtool read its metrics: it must find
// nothing to complain of. docs/metrics.md has a row for each metric, of its type and with the
// program's command, and no row that no program has.
func TestMetricsLint(t *testing.T) {
	labtest.Promtool(t)
	bin := command(t)
	ctx := bounded(t, patience)
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := metricrows.Read(page)
	seen := map[string]bool{}
	for _, p := range metricPrograms(t, nw) {
		t.Run(p.name, func(t *testing.T) {
			text := scrapeMetrics(t, ctx, p.start(t, bin), p.want)
			labtest.LintMetrics(t, text)
			for line := range strings.Lines(text) {
				f := strings.Fields(line)
				if len(f) != 4 || f[1] != "TYPE" {
					continue
				}
				seen[f[2]] = true
				if !slices.ContainsFunc(rows, func(r metricrows.Row) bool {
					return r.Name == f[2] && r.Type == f[3] && slices.Contains(r.Commands, p.command)
				}) {
					t.Errorf("docs/metrics.md has no row of %s %s for %s", f[3], f[2], p.command)
				}
			}
		})
	}
	for _, r := range rows {
		if !seen[r.Name] && !strings.HasPrefix(r.Name, "chive_eth_") { // which devp2p's tests see
			t.Errorf("no program has %s", r.Name)
		}
	}
}

// metricProgram is a program with metrics.
type metricProgram struct {
	name, command string
	args          []string
	want          []string // what its metrics say soon
}

// start runs the program until the test ends, and returns the address of its metrics.
func (p *metricProgram) start(t *testing.T, bin string) string {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := exec.Command(bin, append(p.args, "--metrics", address)...)
	cmd.Dir, cmd.Stderr = t.TempDir(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return address
}

func metricPrograms(t *testing.T, nw *lab.Network) []metricProgram {
	t.Helper()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.toml") // instead of the user's own
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	backend, err := hsservice.OpenKey(filepath.Join(dir, "backend"))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string, more ...string) []string {
		return append([]string{"--config", empty, "--network", nw.NetworkFile, "--data-dir", filepath.Join(dir, name)}, more...)
	}
	relay := func(name string, more ...string) metricProgram {
		args := append([]string{"relay"}, in(name, append(more, "--nickname", name, "--orport", "127.0.0.1:0", "--assume-reachable", "--contact", "interop")...)...)
		return metricProgram{name: name, command: "chive relay", args: args, want: []string{"chive_relay_reachable 1", "chive_relay_onion_descriptors 0"}}
	}
	return []metricProgram{
		{name: "proxy", command: "chive proxy", want: []string{"chive_ready 1", `chive_port_open{port="socks"} 0`, `chive_port_open{port="dns"} 0`},
			args: append([]string{"proxy"}, in("proxy", "--socks", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0")...)},
		{name: "onion", command: "chive onion serve", want: []string{`chive_onion_published{service="shop"} 1`},
			args: append([]string{"onion", "serve"}, in("onion", "--key-dir", filepath.Join(dir, "key"), "--name", "shop", "--pow-defense", "80=127.0.0.1:1")...)},
		{name: "balance", command: "chive onion balance", want: []string{`chive_onion_published{service="1"} 0`},
			args: append([]string{"onion", "balance"}, in("balance", "--key-dir", filepath.Join(dir, "front"), backend.Address())...)},
		relay("relay"),
		relay("exit", "--exit-policy", "accept *:*", "--exit-private"),
		relay("bridge", "--bridge"),
		{name: "authority", command: "chive authority", want: []string{"chive_authority_relays 0"}, args: authorityArgs(t, dir)},
		{name: "fte", command: "chive fte", want: []string{"chive_fte_public_key 1"}, args: []string{"fte", "--mode", "server", "--quiet", "--upstream-format", "words-request", "--server-port", fmt.Sprint(freePort(t))}},
	}
}

// authorityArgs runs an authority that is alone.
func authorityArgs(t *testing.T, dir string) []string {
	t.Helper()
	dir = filepath.Join(dir, "authority")
	keys, err := authority.MakeKeys(filepath.Join(dir, "keys"), "", 12, nil)
	if err != nil {
		t.Fatal(err)
	}
	orport, dirport := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	network, config := filepath.Join(dir, "net.toml"), filepath.Join(dir, "empty.toml")
	text := fmt.Sprintf("name = 'one'\n[[authority]]\nnickname = 'auth'\nv3ident = %q\nrsa = %q\norport = [%q]\ndirport = %q\n[testing]\nallow_private_addresses = true\n",
		keys.V3Ident, keys.RSA, orport, dirport)
	for path, text := range map[string]string{network: text, config: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"authority", "--config", config, "--network", network, "--data-dir", dir, "--nickname", "auth", "--orport", orport, "--dirport", dirport, "--contact", "interop"}
}

// scrapeMetrics asks until the metrics say all that is wanted.
func scrapeMetrics(t *testing.T, ctx context.Context, address string, want []string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var text []byte
	await(t, "the metrics of "+address, patience, func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
		return err == nil && res.StatusCode == http.StatusOK && !slices.ContainsFunc(want, func(w string) bool { return !bytes.Contains(text, []byte("\n"+w+"\n")) })
	})
	return string(text)
}

// TestLintComplains: promtool does complain, so that its silence means something.
func TestLintComplains(t *testing.T) {
	cmd := exec.CommandContext(bounded(t, patience), labtest.Promtool(t), "check", "metrics")
	cmd.Stdin = strings.NewReader("# TYPE chive_nanoseconds_total counter\nchive_nanoseconds_total 1\n# HELP chive_x Something.\n# TYPE chive_x counter\nchive_x 1\n")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"chive_nanoseconds_total no help text", "base unit", `"_total" suffix`} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("no %q: %v\n%s", want, err, out)
		}
	}
}
