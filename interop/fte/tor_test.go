// Package fte_test proves the pluggable transports with C tor.
package fte_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/proxy"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/target"
)

// output is a program's output, and tells when a text has appeared in it.
type output struct {
	mu   sync.Mutex
	b    bytes.Buffer
	want string
	seen chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := strings.Contains(o.b.String(), o.want)
	o.b.Write(p)
	if !had && strings.Contains(o.b.String(), o.want) {
		close(o.seen)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startTor runs tor with a configuration until the test ends, and returns when
// its log has said ready. In a network that is so young a client now and then
// does not get through its bootstrap; started once more it does.
func startTor(t *testing.T, torPath, dir, torrc, ready string) {
	t.Helper()
	for try := 1; !runTor(t, torPath, dir, torrc, ready); try++ {
		if try == 3 {
			t.Fatalf("tor doesn't say %q", ready)
		}
		t.Logf("tor doesn't say %q: once more", ready)
	}
}

// runTor is startTor's first try. It tells whether tor got ready; one that did
// not has ended.
func runTor(t *testing.T, torPath, dir, torrc, ready string) bool {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "torrc")
	if err := os.WriteFile(path, []byte(torrc), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(torPath, "--defaults-torrc", "/dev/null", "-f", path)
	out := &output{want: ready, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-done
		}
		if t.Failed() {
			t.Logf("%s:\n%s", dir, out)
		}
	})
	select {
	case <-out.seen:
		return true
	case <-done:
		t.Fatalf("tor ended: %v", cmd.ProcessState)
	case <-time.After(90 * time.Second):
		cmd.Process.Kill()
		<-done
	}
	return false
}

// freePort returns a port that nothing uses while the network is open.
func freePort(t *testing.T, nw *ctor.Network) int {
	t.Helper()
	port, err := nw.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return int(port)
}

// startBridge runs a bridge, whose options for the transport chive end in
// more, and returns its bridge lines of both transports.
func startBridge(t *testing.T, nw *ctor.Network, torPath, chive, dir, more string) (own, classic string) {
	t.Helper()
	ownPort, classicPort := freePort(t, nw), freePort(t, nw)
	startTor(t, torPath, dir, nw.Torrc()+fmt.Sprintf(`
DataDirectory %s
Nickname bridge
Address 127.0.0.1
ORPort 127.0.0.1:%d IPv4Only
AssumeReachable 1
BridgeRelay 1
BridgeDistribution none
PublishServerDescriptor 0
ExtORPort auto
SocksPort 0
ExitRelay 0
ServerTransportPlugin chive,fte exec %s
ServerTransportListenAddr chive 127.0.0.1:%d
ServerTransportListenAddr fte 127.0.0.1:%d
ServerTransportOptions chive format=manual-http%s
Log notice stdout
`, dir, freePort(t, nw), chive, ownPort, classicPort, more), "Registered server transport 'fte'")
	fp, err := os.ReadFile(filepath.Join(dir, "fingerprint"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "pt_state", "chive_bridgeline.txt"))
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Fields(string(fp))[1]
	own = strings.NewReplacer("Bridge ", "", "ADDRESS:PORT", fmt.Sprintf("127.0.0.1:%d", ownPort), "FINGERPRINT", id).Replace(strings.TrimSpace(string(kept)))
	return own, fmt.Sprintf("fte 127.0.0.1:%d %s", classicPort, id)
}

// TestTor has a C tor bridge and C tor clients use chive as their pluggable
// transport, and fetches through each.
func TestTor(t *testing.T) {
	nw := ctortest.Network(t, ctor.Options{Authorities: 1, Relays: 2, Exits: 2})
	torPath, _, err := ctor.Find("")
	if err != nil {
		t.Fatal(err)
	}
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	chive := filepath.Join(t.TempDir(), "chive")
	build := exec.Command("go", "build", "-o", chive, "github.com/chivenet/chive/cmd/chive")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}

	dir := t.TempDir()
	strict, classic := startBridge(t, nw, torPath, chive, filepath.Join(dir, "bridge"), "")
	bulk, _ := startBridge(t, nw, torPath, chive, filepath.Join(dir, "bulk"), " mode=bulk")
	for name, line := range map[string]string{
		"strict":        strict,
		"shaped":        strict + " pad-to=512 pad-random=200 delay=2ms",
		"hybrid":        strict + " pq=1",
		"bulk":          bulk,
		"classic words": classic + " format=words",
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(dir, "client-"+strings.ReplaceAll(name, " ", "-"))
			socks := freePort(t, nw)
			startTor(t, torPath, data, nw.Torrc()+fmt.Sprintf(`
DataDirectory %s
SocksPort 127.0.0.1:%d
UseBridges 1
ClientTransportPlugin chive,fte exec %s
Bridge %s
Log notice stdout
`, data, socks, chive, line), "Bootstrapped 100%")
			d, err := proxy.SOCKS5("tcp", fmt.Sprintf("127.0.0.1:%d", socks), nil, proxy.Direct)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return d.(proxy.ContextDialer).DialContext(ctx, network, addr)
				}}}
			defer client.CloseIdleConnections()
			const size = 4 << 20
			resp, err := client.Get(tg.URL(size))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			h := sha256.New()
			n, err := io.Copy(h, resp.Body)
			if sum := target.Sum(size); err != nil || n != size || !bytes.Equal(h.Sum(nil), sum[:]) {
				t.Fatalf("%d of %d bytes, or other ones: %v", n, size, err)
			}
		})
	}
}
