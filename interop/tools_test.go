package interop

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestIperf3 measures through chive proxy with iperf3. It cannot use SOCKS, so
// socat connects the two.
func TestIperf3(t *testing.T) {
	nw := network(t, "vanilla")
	defer quiet(t, nw)()
	p := start(t, chiveClient{command(t)}, nw, startOptions{dir: t.TempDir()})
	for name, args := range map[string][]string{"up": nil, "down": {"-R"}, "four streams up": {"-P", "4"}, "four streams down": {"-P", "4", "-R"}} {
		t.Run(name, func(t *testing.T) {
			// Bytes in flight at the end do not count, and iperf3 sends ahead of
			// the receiver: a loaded machine gets more time.
			got := iperf3(t, nw, p, append(args, "-t", "2"))
			if got < 1<<20 {
				got = iperf3(t, nw, p, append(args, "-t", "20"))
			}
			if got < 1<<20 {
				t.Errorf("%d bytes were received", got)
			}
		})
	}
}

// iperf3 runs iperf3 through a proxy and returns how many bytes were received.
func iperf3(t *testing.T, nw *ctor.Network, p *proxy, args []string) int64 {
	t.Helper()
	// A new server for each run: the end of the last run may not have arrived
	// yet.
	server, port := leasedPort(t, nw), leasedPort(t, nw)
	background(t, nw, "Server listening", "iperf3", "-s", "--forceflush", "-B", "127.0.0.1", "-p", server)
	_, socksPort, _ := strings.Cut(p.addr, ":")
	background(t, nw, "listening on", "socat", "-d", "-d",
		"TCP4-LISTEN:"+port+",bind=127.0.0.1,fork", "SOCKS4A:127.0.0.1:127.0.0.1:"+server+",socksport="+socksPort)
	var report struct {
		Error string
		End   struct {
			Received struct {
				Bytes int64
				Rate  float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	out := tool(t, "iperf3", append([]string{"-c", "127.0.0.1", "-p", port, "-J"}, args...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Error != "" {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%.0f Mbit/s", report.End.Received.Rate/1e6)
	return report.End.Received.Bytes
}

// pinScript pins streams of a running tor to circuits that it builds by
// way of given relays, and has curl download through each of them.
const pinScript = `
import hashlib, subprocess, sys, threading
from stem.control import Controller, EventType
port, socks, url, paths = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
with Controller.from_port(port=port) as c:
    c.authenticate()
    c.set_conf("__LeaveStreamsUnattached", "1")
    for path in paths:
        circuit = c.new_circuit(path.split(","), await_build=True, timeout=90)
        def attach(stream):
            if stream.status == "NEW" and stream.purpose == "USER":
                c.attach_stream(stream.id, circuit)
        c.add_event_listener(attach, EventType.STREAM)
        body = subprocess.run(["curl", "-sS", "--noproxy", "", "-m", "120", "-x", "socks5h://" + socks, url], check=True, stdout=subprocess.PIPE).stdout
        c.remove_event_listener(attach)
        print(path, hashlib.sha256(body).hexdigest(), flush=True)
        c.close_circuit(circuit)
`

// TestStemPinned downloads through the same relays in the same order with two
// clients at once: C tor's, pinned by stem, and Chive's, pinned by its options.
func TestStemPinned(t *testing.T) {
	nw := network(t, "kist") // no relay there is ever killed
	python := stemPython(t)
	_, err := exec.LookPath("curl")
	labtest.Need(t, "curl", err)
	guards, exits := listedGuards(t, nw, nw.ByRole(ctor.Relay), 2), nw.ByRole(ctor.Exit)
	paths := [][]*ctor.Node{{guards[0], guards[1], exits[0]}, {guards[1], guards[0], exits[1]}}
	stock := stockClient(t, nw)
	const size = 4 << 20
	args := []string{"-c", pinScript, strconv.Itoa(int(stock.ControlAddr.Port())), stock.SOCKS.String(), shared.target.URL(size)}
	for _, path := range paths {
		var ids []string
		for _, n := range path {
			ids = append(ids, n.ID.RSA.String())
		}
		args = append(args, strings.Join(ids, ","))
	}
	cmd := exec.CommandContext(bounded(t, 2*patience), python, args...)
	done := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	want := fmt.Sprintf("%x", target.Sum(size))
	for _, path := range paths {
		p := start(t, chiveClient{command(t)}, nw, startOptions{dir: t.TempDir(), pin: path})
		body := tool(t, "curl", "-sS", "--noproxy", "", "-x", "socks5h://"+p.addr, shared.target.URL(size))
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got != want {
			t.Errorf("Chive, %v: %d bytes, SHA-256 %s", names(path), len(body), got)
		}
	}
	if err := <-done; err != nil {
		t.Fatalf("stem: %v\n%s", err, out)
	}
	if n := strings.Count(string(out), want); n != len(paths) {
		t.Errorf("C tor's client, pinned by stem, downloaded %d of %d times what it should:\n%s", n, len(paths), out)
	}
}

// stockClient starts C tor's client. In such a new network its bootstrap
// sometimes does not finish; then stockClient starts another one.
func stockClient(t *testing.T, nw *ctor.Network, extra ...string) *ctor.Node {
	t.Helper()
	for try := 1; ; try++ {
		n, err := nw.AddClient(bounded(t, patience), t.TempDir(), extra...)
		if err != nil {
			t.Fatal(err)
		}
		if err = n.AwaitBootstrap(bounded(t, stockPatience)); err == nil {
			t.Cleanup(func() {
				if err := n.Stop(); err != nil {
					t.Error(err)
				}
			})
			return n
		}
		if err := n.Kill(); err != nil {
			t.Error(err)
		}
		if try == 3 {
			t.Fatal(err)
		}
		t.Logf("another one, after: %v", err)
	}
}

// stockPatience is how long C tor's client has for a bootstrap, before it is
// started again.
const stockPatience = 90 * time.Second

// bootstrapAgain starts a stopped client of C tor, and again if its bootstrap
// does not finish, like stockClient.
func bootstrapAgain(t *testing.T, n *ctor.Node) {
	t.Helper()
	for try := 1; ; try++ {
		err := n.Start(bounded(t, patience))
		if err == nil {
			err = n.AwaitBootstrap(bounded(t, stockPatience))
		}
		if err == nil {
			return
		}
		if try == 3 {
			logTail(t, n.LogPath)
			t.Fatal(err)
		}
		t.Logf("once more, after: %v", err)
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}

// leasedPort returns a port that no other program gets while the network is open.
func leasedPort(t *testing.T, nw *ctor.Network) string {
	t.Helper()
	port, err := nw.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(port))
}

// background starts a program that ends with the test, and returns when it has
// printed that it is ready.
func background(t *testing.T, nw *ctor.Network, ready, name string, args ...string) {
	t.Helper()
	_, err := exec.LookPath(name)
	labtest.Need(t, name, err)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = w, w
	p, err := nw.Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(); r.Close() })
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.Contains(lines.Text(), ready) {
			r.SetReadDeadline(time.Time{})
			go io.Copy(io.Discard, r) // ends with the program
			return
		}
	}
	t.Fatalf("%s is not ready: %v", filepath.Base(name), lines.Err())
}
