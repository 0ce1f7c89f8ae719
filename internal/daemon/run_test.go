package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// A proxy whose client cannot continue ends, and gives the reason.
func TestClientEndsByItself(t *testing.T) {
	r := run(t, web(t))
	r.port(t, "socks")
	close(r.client.done)
	r.end(t, errNoMore)
}

// TestMetricsHost: metrics can be asked for by a name that the option lists, and by no other.
func TestMetricsHost(t *testing.T) {
	r := run(t, web(t), "--metrics", "127.0.0.1:0", "--metrics-host", "relay.example")
	r.port(t, "socks")
	at := r.port(t, "metrics")
	for host, want := range map[string]int{"relay.example": http.StatusOK, "page.example": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+at+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", host, resp.Status)
		}
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

func TestRun(t *testing.T) {
	notified := notifySocket(t)
	r := run(t, web(t), "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	socks, tunnel, dns, metrics := r.port(t, "socks"), r.port(t, "http"), r.port(t, "dns"), r.port(t, "metrics")
	r.bootstrap(chive.BootstrapStatus{Percent: 40, Stage: "loading microdescriptors"})
	r.bootstrap(chive.BootstrapStatus{Percent: 100, Stage: "done", Ready: true})
	if l := r.line(t); l != "ready" {
		t.Fatalf("%q", l)
	}
	if s := <-notified; s != "READY=1" {
		t.Errorf("systemd hears %q", s)
	}
	if !strings.Contains(r.log.String(), `percent=40 stage="loading microdescriptors"`) {
		t.Errorf("no plain line of progress: %s", r.log)
	}

	u := &url.URL{Scheme: "socks5", Host: socks, User: url.UserPassword("u", "p")} // net/http lets the proxy look names up
	c := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}}
	resp, err := c.Get("http://host.test/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "host.test" {
		t.Errorf("by SOCKS: %q", body)
	}
	tc, err := net.Dial("tcp", tunnel)
	if err != nil {
		t.Fatal(err)
	}
	tc.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(tc, "CONNECT host.test:80 HTTP/1.1\r\nHost: host.test\r\n\r\n")
	ok := make([]byte, 12)
	io.ReadFull(tc, ok) // the request comes after this: the client here ignores early data
	if string(ok) != "HTTP/1.0 200" {
		t.Errorf("by CONNECT: %q", ok)
	}
	io.WriteString(tc, "GET / HTTP/1.0\r\nHost: inner\r\n\r\n")
	tunnelled, _ := io.ReadAll(tc)
	tc.Close()
	if !strings.HasSuffix(string(tunnelled), "\r\n\r\ninner") {
		t.Errorf("by CONNECT: %q", tunnelled)
	}
	res := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, n, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, n, dns)
	}}
	if a, err := res.LookupNetIP(t.Context(), "ip4", "host.test."); err != nil || len(a) != 1 {
		t.Errorf("%v %v", a, err)
	}
	if n, err := res.LookupAddr(t.Context(), "192.0.2.1"); err != nil || len(n) != 1 {
		t.Errorf("%v %v", n, err)
	}

	text, _ := fetch(t, "http://"+metrics+"/metrics")
	if !strings.Contains(text, "chive_cells_total 5\n# HELP chive_port_accepted_total") || !strings.Contains(text, `chive_port_accepted_total{port="socks"} 1`) {
		t.Errorf("metrics: %s", text)
	}
	text, _ = fetch(t, "http://"+metrics+"/metrics.json")
	var all struct {
		Client struct{ Cells int }
		Ports  struct{ Counters []any }
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || all.Client.Cells != 5 || len(all.Ports.Counters) == 0 {
		t.Errorf("%v: %s", err, text)
	}
	if _, code := fetch(t, "http://"+metrics+"/other"); code != 404 {
		t.Errorf("other paths: %d", code)
	}

	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if s := <-notified; s != "STOPPING=1" {
		t.Errorf("systemd hears %q", s)
	}
}

func fetch(t *testing.T, u string) (string, int) {
	t.Helper()
	resp, err := http.Get(u)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b), resp.StatusCode
}

// notifySocket acts as systemd.
func notifySocket(t *testing.T) <-chan string {
	t.Chdir(t.TempDir()) // whose path may be too long for a socket's
	const path = "notify"
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Cleanup(func() { c.Close() })
	ch := make(chan string, 8)
	go func() {
		b := make([]byte, 1024)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			ch <- string(b[:n])
		}
	}()
	return ch
}

func TestReadyBeforeSubscription(t *testing.T) {
	r := run(t, "")
	r.client.mu.Lock()
	r.client.status.Bootstrap = chive.BootstrapStatus{Percent: 100, Ready: true}
	r.client.mu.Unlock()
	r.port(t, "socks")
	if r.line(t) != "ready" {
		t.Error("not ready")
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

func TestReload(t *testing.T) {
	r := run(t, "")
	r.port(t, "socks")
	reload := func(config, want string) {
		t.Helper()
		// Atomically, because the previous reload may still be reading the file.
		if err := atomicfile.Write(r.config, []byte(config), atomicfile.Secret); err != nil {
			t.Fatal(err)
		}
		r.hangup <- syscall.SIGHUP
		r.hangup <- syscall.SIGHUP // it takes effect after the first reload
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("%q: no %q in the log: %s", config, want, r.log)
		}
	}
	reload("", "msg=reloaded")
	reload(`cgo = "off"`, "next start\" options=[cgo]")
	reload("exclude-nodes = ['192.0.2.0/24']\ndrain = '1s'\nmetrics = '9999'", "next start\" options=[metrics]")
	if r.client.mu.Lock(); !slices.Equal(r.client.exclude, []string{"192.0.2.0/24"}) || !strings.Contains(r.log.String(), "changed=\"[drain exclude-nodes]\"") {
		t.Errorf("%q; log: %s", r.client.exclude, r.log)
	}
	r.client.mu.Unlock()
	reload(`sokcs = "1"`, "the settings in use stay")
	reload(`log-level = "error"`, "")
	before := r.log.String()
	reload(`log-level = "error"`, "") // says nothing at this level
	if r.log.String() != before {
		t.Errorf("the log's level did not change: %s", r.log)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

// TestDrain: an open connection continues after the first signal, also when that comes
// before the start is over, and is closed by the second.
func TestDrain(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	connect := func(r *running) net.Conn {
		c, err := net.Dial("tcp", r.port(t, "socks"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		c.Write([]byte("\x05\x01\x00\x05\x01\x00\x03\x04host\x00\x50"))
		want := "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); string(got) != want {
			t.Fatalf("%q %v", got, err)
		}
		return c
	}
	say := func(c net.Conn) {
		b := make([]byte, 5)
		c.Write([]byte("still"))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Errorf("cut while draining: %v", err)
		}
	}

	r := run(t, echo.Addr().String())
	c := connect(r)
	r.stop <- syscall.SIGTERM
	say(c)
	c.Close()
	r.end(t, nil)

	r = run(t, echo.Addr().String(), "--http", "127.0.0.1:0")
	c = connect(r)
	r.stop <- syscall.SIGTERM
	r.port(t, "http") // the start waited for a reader of this line
	say(c)
	c.Close()
	r.end(t, nil)

	r = run(t, echo.Addr().String())
	c = connect(r)
	r.stop <- syscall.SIGTERM
	say(c)
	r.stop <- syscall.SIGTERM
	r.end(t, ErrKilled)

	r = run(t, echo.Addr().String(), "--drain", "1ms")
	connect(r)
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if !strings.Contains(r.log.String(), "did not finish in time") {
		t.Errorf("%s", r.log)
	}
}

func TestRunFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, args := range [][]string{
		{"--http", taken.Addr().String()}, {"--metrics", taken.Addr().String()}, {"--dns", taken.Addr().String()},
	} {
		r := run(t, "", args...)
		if err := <-r.done; err == nil || !strings.HasPrefix(err.Error(), args[0]+": listen at "+args[1]+": ") || r.client.closed != r.started {
			t.Errorf("%v: %v", args, err)
		} else if r.started && args[0] != "--metrics" {
			t.Errorf("%v: the client started before the port was tried", args)
		}
	}
	r := run(t, "", "--socks", "")
	if err := <-r.done; !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), "no port is open") {
		t.Errorf("%v", err)
	}
	r = run(t, "")
	r.port(t, "socks")
	close(r.client.events)
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "has closed") {
		t.Errorf("%v", err)
	}
}

// TestListenBoth: a port with a given number is opened or refused; with number 0,
// TCP and UDP get the same number.
func TestListenBoth(t *testing.T) {
	used, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	if l, pc, err := listenBoth(used.LocalAddr().String()); err == nil {
		t.Errorf("opened %v and %v, which is in use", l.Addr(), pc.LocalAddr())
	}
	l, pc, err := listenBoth("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer pc.Close()
	if l.Addr().String() != pc.LocalAddr().String() {
		t.Errorf("TCP at %v, UDP at %v", l.Addr(), pc.LocalAddr())
	}
}

// TestPortsFirst: a program that connects while the client starts waits for it, and is served then.
// If the client does not start, the ports are closed.
func TestPortsFirst(t *testing.T) {
	for _, starts := range []bool{true, false} {
		dir, err := os.MkdirTemp("", "ports") // a socket's path must be short
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		at := filepath.Join(dir, "s")
		s, fs := NewProxySettings(), pflag.NewFlagSet("proxy", pflag.ContinueOnError)
		s.AddFlags(fs)
		if err := fs.Parse([]string{"--data-dir", t.TempDir(), "--socks", "unix:" + at}); err != nil {
			t.Fatal(err)
		}
		cfg := s.role.(*proxyRole)
		fake := &loopback{events: make(chan chive.Event), done: make(chan struct{}), status: chive.Status{Network: "test"}}
		var early net.Conn
		refused := errors.New("it does not start")
		cfg.start = func(chive.Config) (Client, error) {
			early, err = net.Dial("unix", at)
			if err != nil {
				t.Error(err)
			}
			if !starts {
				return nil, refused
			}
			return fake, nil
		}
		n, err := cfg.open(io.Discard, slog.New(slog.DiscardHandler))
		if early == nil {
			t.Fatal(err)
		}
		defer early.Close()
		if !starts {
			if !errors.Is(err, refused) {
				t.Error(err)
			}
			if c, err := net.Dial("unix", at); err == nil {
				c.Close()
				t.Error("the port is open although there is no client")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := early.Write([]byte{5, 1, 0}); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 2)
		if _, err := io.ReadFull(early, answer); err != nil || !bytes.Equal(answer, []byte{5, 0}) {
			t.Errorf("%x %v", answer, err)
		}
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}
}
