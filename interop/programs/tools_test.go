package programs

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serve has a tor serve a page, and returns the onion's address.
func (r *running) serve(t *testing.T, text string) string {
	t.Helper()
	got := r.control(t)("ADD_ONION NEW:BEST Flags=DiscardPK Port=80," + page(t, text))
	m := regexp.MustCompile(`250-ServiceID=(\S+)\r\n`).FindStringSubmatch(got)
	if m == nil {
		t.Fatal(got)
	}
	return m[1] + ".onion"
}

// TestTorsocks: torsocks brings a program that knows no proxy to an onion.
func TestTorsocks(t *testing.T) {
	need(t, "torsocks", "curl")
	tor := start(t)
	onion := tor.serve(t, "for torsocks")
	if got := fetch(t, tor.Socks, "http://"+onion+"/"); got != "for torsocks" { // it waits until the onion is there
		t.Fatal(got)
	}
	_, port, _ := strings.Cut(tor.Socks, ":")
	if got := run(t, nil, "torsocks", "-P", port, "-a", "127.0.0.1", "curl", "-sS", "http://"+onion+"/"); got != "for torsocks" {
		t.Errorf("got %q", got)
	}
}

// TestTorPrompt: stem's prompt runs commands of the protocol, its own, and Python.
func TestTorPrompt(t *testing.T) {
	need(t, "tor-prompt")
	tor := start(t)
	ask := func(command string) string { return run(t, nil, "tor-prompt", "-i", tor.Control, "--run", command) }
	for command, want := range map[string]string{
		"GETINFO version":                           "250-version=0.4.9.11-chive",
		"GETCONF SocksPort":                         "250 SocksPort=auto",
		"print(controller.get_info('process/pid'))": fmt.Sprint(tor.pid),
		"SIGNAL NEWNYM":                             "250 OK",
		"/info chiverelay0":                         "flags:",
	} {
		if got := ask(command); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// TestExporter: an exporter of metrics reads all that it wants. PROGRAMS_EXPORTER is the file prometheus-tor-exporter.py of
// github.com/atx/prometheus-tor_exporter.
func TestExporter(t *testing.T) {
	script := os.Getenv("PROGRAMS_EXPORTER")
	if script == "" {
		missing(t, "prometheus-tor-exporter.py, which PROGRAMS_EXPORTER names,")
	}
	p := python(t, "stem", "prometheus_client", "retrying")
	tor := start(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := strings.Cut(address, ":")
	_, control, _ := strings.Cut(tor.Control, ":")
	cmd := exec.Command(p, script, "-m", "tcp", "-a", "127.0.0.1", "-c", control, "-b", "127.0.0.1", "-p", port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	text := ""
	for range 40 {
		if r, err := http.Get("http://" + address + "/metrics"); err == nil {
			b, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err == nil {
				text = string(b)
				break
			}
		}
		time.Sleep(250 * time.Millisecond) // it tells nobody when its port is open
	}
	for _, want := range []string{`(?m)^tor_written_bytes [1-9]`, `(?m)^tor_read_bytes [1-9]`, `tor_version\{version="0\.4\.9\.11-chive"\} 1`, `(?m)^tor_network_liveness 1`,
		`(?m)^tor_circuit_established 1`, `(?m)^tor_dormant 0`, `(?m)^tor_connection_count [1-9]`, `(?m)^tor_uptime `, `tor_flags\{flag="Running"\} 0`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestCarml: carml's commands, of release 23.11.1: older ones use a word that Python has taken since 3.7.
func TestCarml(t *testing.T) {
	python(t, "carml.cli")
	carml := need(t, "carml")[0]
	tor := start(t)
	out := run(t, nil, carml, "--connect", "tcp:"+tor.Control, "circ", "--list")
	if !strings.Contains(out, "chive") {
		t.Error(out)
	}
}
