package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/panics"
)

// command is the chive binary, built once.
func command(t *testing.T) string {
	t.Helper()
	bin, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// runProxy starts chive proxy and returns the addresses of its ports, once it is
// ready.
func runProxy(t *testing.T, bin string, nw *ctor.Network, dir string, args ...string) (*exec.Cmd, map[string]string) {
	t.Helper()
	file, err := nw.WriteNetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{"proxy", "--network", file, "--data-dir", dir, "--socks", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &noPanics{t: t}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	watchdog := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	ports := map[string]string{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		name, addr, _ := strings.Cut(lines.Text(), " ")
		if name == "ready" {
			t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
			return cmd, ports
		}
		ports[name] = addr
	}
	t.Fatalf("chive proxy ended before it was ready: %v", cmd.Wait())
	return nil, nil
}

// noPanics receives chive's log: a contained panic fails the test.
type noPanics struct {
	t    *testing.T
	last []byte
}

func (n *noPanics) Write(b []byte) (int, error) {
	n.last = append(n.last, b...)
	if bytes.Contains(n.last, []byte(panics.Logged)) {
		n.t.Errorf("chive: %s", n.last)
	}
	n.last = n.last[max(0, len(n.last)-len(panics.Logged)):] // it may come in two parts
	return n.t.Output().Write(b)
}

// end sends a program a signal and waits until it has ended. If it does not end,
// it gets the signal at which Go programs print their stacks, and is killed.
func end(t *testing.T, cmd *exec.Cmd, s syscall.Signal) error {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	show := time.AfterFunc(patience, func() { cmd.Process.Signal(syscall.SIGQUIT) })
	defer show.Stop()
	kill := time.AfterFunc(patience+10*time.Second, func() { cmd.Process.Kill() })
	defer kill.Stop()
	return cmd.Wait()
}

// tool runs a program and returns what it printed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	_, err := exec.LookPath(name)
	labtest.Need(t, name, err)
	out, err := exec.CommandContext(bounded(t, patience), name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v\n%.500s", name, args, err, out)
	}
	return string(out)
}

// TestCommand uses the binary as a person would: chive proxy with curl, chive
// status, the metrics, and then chive get.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
	nw := network(t, "vanilla")
	defer quiet(t, nw)()
	bin, dir := command(t), t.TempDir()
	cmd, ports := runProxy(t, bin, nw, dir, "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	const size = 8 << 20
	want := fmt.Sprintf("%x", target.Sum(size))
	for name, proxy := range map[string][]string{
		"socks4a": {"-x", "socks4a://" + ports["socks"]},
		"socks5h": {"-x", "socks5h://" + ports["socks"]},
		"auth":    {"-x", "socks5h://user:pass@" + ports["socks"]},
		"http":    {"-p", "-x", "http://" + ports["http"]},
	} {
		t.Run("curl "+name, func(t *testing.T) {
			body := tool(t, "curl", append(proxy, "-sS", "--noproxy", "", shared.target.URL(size))...)
			if got := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got != want {
				t.Errorf("%d bytes, SHA-256 %s", len(body), got)
			}
		})
	}
	t.Run("dns", func(t *testing.T) { askPort(t, ports["dns"]) })
	t.Run("status", func(t *testing.T) {
		var st struct {
			Bootstrap struct{ Ready bool }
			Guards    []struct{ Fingerprint string }
			Circuits  int
		}
		if err := json.Unmarshal([]byte(tool(t, bin, "status", "--json", "--data-dir", dir)), &st); err != nil {
			t.Fatal(err)
		}
		if !st.Bootstrap.Ready || len(st.Guards) == 0 || st.Circuits == 0 {
			t.Errorf("%+v", st)
		}
		if text := tool(t, bin, "status", "--data-dir", dir); !strings.Contains(text, "state      ready") {
			t.Errorf("%s", text)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		resp, err := http.Get("http://" + ports["metrics"] + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(text), `chive_port_dial_seconds_count{port="socks"} 3`) || !strings.Contains(string(text), "chive_panics_total 0\n") {
			t.Errorf("%v\n%s", err, text)
		}
	})
	if u, err := proc.Of(cmd.Process.Pid); err == nil {
		t.Logf("after %d bytes: %v of CPU, %d bytes resident", 4*size, u.CPU, u.RSS)
	}
	// A second client must not use the same guards and cache at once; a download uses the
	// first, unless that is not what was asked for.
	file, _ := nw.WriteNetworkFile()
	if out, err := exec.CommandContext(bounded(t, patience), bin, "proxy", "--network", file, "--data-dir", dir, "--socks", "127.0.0.1:0").CombinedOutput(); err == nil || !strings.Contains(string(out), "in use") {
		t.Errorf("two clients on one data directory: %v %s", err, out)
	}
	if out, err := exec.CommandContext(bounded(t, patience), bin, "get", "--network", file, "--data-dir", dir, "--pq", "require-all", shared.target.URL(1)).CombinedOutput(); err == nil || !strings.Contains(string(out), "in use") || !strings.Contains(string(out), "other values of these options: pq") {
		t.Errorf("a download with other options: %v %s", err, out)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(tool(t, bin, "get", "--network", file, "--data-dir", dir, shared.target.URL(size))))); got != want {
		t.Errorf("through the client that runs: SHA-256 %s", got)
	}
	if err := end(t, cmd, syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	t.Run("get", func(t *testing.T) {
		out := filepath.Join(dir, "download")
		began := time.Now()
		tool(t, bin, "get", "--network", file, "--data-dir", dir, "-o", out, shared.target.URL(size))
		t.Logf("chive get, warm: %v", time.Since(began).Round(time.Millisecond))
		body, err := os.ReadFile(out)
		if got := fmt.Sprintf("%x", sha256.Sum256(body)); got != want {
			t.Errorf("%v: %d bytes, SHA-256 %s", err, len(body), got)
		}
	})
}

// askPort looks a name up through the DNS port, with Go's resolver.
func askPort(t *testing.T, port string) {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, port)
	}}
	addrs, err := r.LookupNetIP(bounded(t, patience), "ip4", target.Name4+".")
	if err != nil || len(addrs) == 0 {
		t.Errorf("%v %v", addrs, err)
	}
}
