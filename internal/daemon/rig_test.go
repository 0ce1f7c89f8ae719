package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/stream"
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
	silent bool // before it was closed

	exclude    []string // as Reload had it
	identities int      // how often NewIdentity was called
	dialled    []string // what DialRequest was asked for
}

func (l *loopback) DialRequest(ctx context.Context, req client.Request) (net.Conn, error) {
	l.mu.Lock()
	l.dialled = append(l.dialled, net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port))))
	l.mu.Unlock()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", l.addr)
	if err == nil {
		_, err = c.Write(req.Early)
	}
	return c, err
}

func (l *loopback) LookupRequest(_ context.Context, req client.Request) ([]stream.Answer, error) {
	if _, err := netip.ParseAddr(req.Host); err == nil {
		return []stream.Answer{{Name: "host.test", TTL: 60}}, nil
	}
	return []stream.Answer{{Addr: netip.MustParseAddr("192.0.2.1"), TTL: 60}}, nil
}

func (l *loopback) StandsFor(host string) string { return host }

func (l *loopback) Silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = !l.closed
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
func (l *loopback) Subscribe(chive.EventKinds) (<-chan chive.Event, func()) {
	return l.events, func() {}
}

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
	started      bool   // the client; read it after done
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
	s.role.(*proxyRole).start = func(chive.Config) (Client, error) { r.started = true; return r.client, nil }
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

// port reads a line such as "socks 127.0.0.1:1" and returns the address.
func (r *running) port(t *testing.T, name string) string {
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
	if !r.client.closed || !r.client.silent {
		t.Error("the client is not closed, or was not silent before")
	}
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
