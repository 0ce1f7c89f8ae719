package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// loopback is a Client whose network is this machine's loopback: every host is
// the same address. It ignores contexts; the tests of real clients check those.
type loopback struct {
	addr   string
	events chan chive.Event
	done   chan struct{}
	mu     sync.Mutex
	status chive.Status
	closed bool

	exclude    []string // as Reload had it
	identities int      // how often NewIdentity was called
}

func (l *loopback) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, l.addr)
}

func (l *loopback) Lookup(_ context.Context, host string) ([]chive.Answer, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []chive.Answer{{Name: "host.test", TTL: time.Minute}}, nil
	}
	return []chive.Answer{{Addr: netip.MustParseAddr("192.0.2.1"), TTL: time.Minute}}, nil
}

func (l *loopback) Done() <-chan struct{} { return l.done }

func (l *loopback) Err() error { return errNoMore }

var errNoMore = errors.New("the network requires more")

func (l *loopback) Status() chive.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

func (l *loopback) Reload(cfg chive.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exclude = cfg.ExcludeNodes
	return nil
}

func (l *loopback) NewIdentity() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.identities++
}

func (l *loopback) Events() (<-chan chive.Event, func()) { return l.events, func() {} }

func (l *loopback) WriteMetrics(w io.Writer) error {
	_, err := io.WriteString(w, "chive_cells_total 5\n")
	return err
}

func (l *loopback) WriteMetricsJSON(w io.Writer) error {
	_, err := io.WriteString(w, `{"cells":5}`)
	return err
}

func (l *loopback) Listen(context.Context, chive.OnionConfig) (*chive.OnionListener, error) {
	return nil, errNoMore
}

func (l *loopback) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// running is a Proxy under test.
type running struct {
	client       *loopback
	out          *bufio.Reader
	log          *syncBuffer
	hangup, stop chan os.Signal
	done         chan error
	dir          string
	config       string // the file that a reload reads
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// run starts a proxy whose client is not yet ready.
func run(t *testing.T, addr string, args ...string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{
		client: &loopback{addr: addr, events: make(chan chive.Event), done: make(chan struct{}), status: chive.Status{Network: "test"}},
		log:    new(syncBuffer), hangup: make(chan os.Signal), stop: make(chan os.Signal), done: make(chan error, 1), dir: dir,
	}
	s, fs := NewProxySettings(), pflag.NewFlagSet("proxy", pflag.ContinueOnError)
	s.AddFlags(fs)
	all := append([]string{"--data-dir", dir}, args...)
	if !slices.Contains(args, "--socks") {
		all = append(all, "--socks", "127.0.0.1:0")
	}
	r.config = filepath.Join(dir, "f")
	if err := errors.Join(fs.Parse(all), os.WriteFile(r.config, nil, 0o600), s.Load(r.config)); err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	r.out = bufio.NewReader(pr)
	s.role.(*proxyRole).start = func(chive.Config) (Client, error) { return r.client, nil }
	p := &Process{Settings: s, Out: pw, Err: r.log, Hangup: r.hangup, Stop: r.stop}
	go func() { r.done <- p.Run(t.Context()); pw.Close() }()
	return r
}

// line reads a line of output.
func (r *running) line(t *testing.T) string {
	t.Helper()
	l, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q %v; the run: %v; log: %s", l, err, <-r.done, r.log)
	}
	return strings.TrimSuffix(l, "\n")
}

// door reads a line such as "socks 127.0.0.1:1" and returns the address.
func (r *running) door(t *testing.T, name string) string {
	t.Helper()
	addr, ok := strings.CutPrefix(r.line(t), name+" ")
	if !ok {
		t.Fatalf("no line for %s", name)
	}
	return addr
}

func (r *running) bootstrap(b chive.BootstrapStatus) {
	r.client.events <- &chive.BootstrapEvent{BootstrapStatus: b}
}

func (r *running) end(t *testing.T, want error) {
	t.Helper()
	if err := <-r.done; !errors.Is(err, want) {
		t.Fatalf("ended with %v, not %v", err, want)
	}
	if !r.client.closed {
		t.Error("the client is not closed")
	}
}

// A proxy whose client cannot continue ends, and gives the reason.
func TestClientEndsByItself(t *testing.T) {
	r := run(t, web(t))
	r.door(t, "socks")
	close(r.client.done)
	r.end(t, errNoMore)
}

// web answers every request with its Host.
func web(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

func TestRun(t *testing.T) {
	notified := notifySocket(t)
	r := run(t, web(t), "--http", "127.0.0.1:0", "--dns", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	socks, tunnel, dns, metrics := r.door(t, "socks"), r.door(t, "http"), r.door(t, "dns"), r.door(t, "metrics")
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
	if !strings.Contains(text, "chive_cells_total 5\n# HELP chive_door_accepted_total") || !strings.Contains(text, `chive_door_accepted_total{door="socks"} 1`) {
		t.Errorf("metrics: %s", text)
	}
	text, _ = fetch(t, "http://"+metrics+"/metrics.json")
	var all struct {
		Client struct{ Cells int }
		Doors  struct{ Counters []any }
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || all.Client.Cells != 5 || len(all.Doors.Counters) == 0 {
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
	r.door(t, "socks")
	if r.line(t) != "ready" {
		t.Error("not ready")
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

func TestStatusSocket(t *testing.T) {
	r := run(t, "")
	r.door(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Percent: 1}) // the status socket is open by now
	st, err := ReadStatus(t.Context(), r.dir)
	if err != nil || st.Proxy == nil || st.Proxy.Network != "test" {
		t.Fatalf("%+v %v", st, err)
	}
	if fi, err := os.Stat(filepath.Join(r.dir, statusSocket)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if _, err := ReadStatus(t.Context(), r.dir); err == nil || !strings.HasPrefix(err.Error(), "no proxy, relay or authority runs") {
		t.Errorf("after the end: %v", err)
	}
}

func TestReload(t *testing.T) {
	r := run(t, "")
	r.door(t, "socks")
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

// TestDrain: an open connection continues after the first signal, and is closed
// by the second.
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
		c, err := net.Dial("tcp", r.door(t, "socks"))
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
		if err := <-r.done; err == nil || !strings.HasPrefix(err.Error(), args[0][2:]+": listen") || !r.client.closed {
			t.Errorf("%v: %v", args, err)
		}
	}
	r := run(t, "", "--socks", "")
	if err := <-r.done; !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), "no port is open") {
		t.Errorf("%v", err)
	}
	r = run(t, "")
	r.door(t, "socks")
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

func TestPrintStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b strings.Builder
	PrintStatus(&b, chive.Status{
		Network: "lab", Started: now.Add(-time.Hour), Circuits: 3, Building: 1, Channels: 2, Streams: 4, Read: 5, Written: 6,
		Bootstrap: chive.BootstrapStatus{Percent: 30, Stage: "asking", Problem: "no route"},
		Directory: chive.DirectoryStatus{ValidAfter: now, ValidUntil: now, Relays: 9, Usable: 8},
		Bridges:   []chive.BridgeStatus{{Transport: "obfs4", Problem: "refused"}, {Fingerprint: "AB", Nickname: "g", Usable: true}},
		Guards:    []chive.GuardStatus{{Fingerprint: "AB", Nickname: "g", Confirmed: true, Reachable: "yes"}},
		Open: []chive.CircuitStatus{{ID: 7, Path: []string{"0123456789", "AB", "CD"}, Hops: []chive.HopProtection{
			{Handshake: "pq768", PQ: "pq768", Carriage: "A"}, {Handshake: "ntor"}, {Handshake: "ntor-v3", PQ: "pq768", Carriage: "B"}}}},
	}, now)
	const want = `network    lab
state      not ready: 30%, asking
problem    no route
up         1h0m0s
directory  9 relays, 8 usable; valid until 2026-01-02 03:04:05 UTC
open       2 channels, 3 circuits (and 1 being built), 4 streams
traffic    5 bytes read, 6 written
bridge     unknown  obfs4 (not usable yet: refused)
bridge     AB g plain (its descriptor is here)
guard      AB g (reachable: yes, confirmed, not usable now)
circuit    7: 01234567 (pq768) AB (ntor) CD (ntor-v3, then pq768)
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}
