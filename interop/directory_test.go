package interop

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/netdir"
)

// dirPorts opens directory streams as plain connections to the authorities'
// DirPorts, where C tor answers as it does on BEGIN_DIR streams.
type dirPorts struct {
	nw *netdir.Network

	mu       sync.Mutex
	next     int                       // guarded by mu
	failed   []error                   // guarded by mu
	answered map[dirclient.Purpose]int // guarded by mu
	requests strings.Builder           // guarded by mu
}

func (p *dirPorts) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	p.mu.Lock()
	a := p.nw.Authorities[p.next%len(p.nw.Authorities)]
	for range p.nw.Authorities {
		if !slices.Contains(q.Avoid, ident.RelayID{RSA: a.RSA}) {
			break
		}
		p.next++
		a = p.nw.Authorities[p.next%len(p.nw.Authorities)]
	}
	p.next++
	p.mu.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.DirPort.String())
	if err != nil {
		return dirclient.Stream{Cache: ident.RelayID{RSA: a.RSA}}, err
	}
	return dirclient.Stream{ReadWriteCloser: tap{conn, p}, Cache: ident.RelayID{RSA: a.RSA}}, nil
}

// tap records what is sent.
type tap struct {
	net.Conn
	p *dirPorts
}

func (t tap) Write(b []byte) (int, error) {
	t.p.mu.Lock()
	t.p.requests.Write(b)
	t.p.mu.Unlock()
	return t.Conn.Write(b)
}

var _ io.ReadWriteCloser = tap{}

func (p *dirPorts) ReportDir(cache ident.RelayID, purpose dirclient.Purpose, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = append(p.failed, err)
		return
	}
	p.answered[purpose]++
}

// allUnderstood fails the test for every document of C tor that the client did
// not accept. It only logs a document that did not come: on a loaded machine an
// authority may be late, and the client asks another one.
func (p *dirPorts) allUnderstood(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.failed {
		if fault.Is(err, fault.Timeout) || fault.Is(err, fault.Network) || strings.Contains(err.Error(), "the cache answered ") {
			t.Logf("asked another authority, after: %v", err)
		} else {
			t.Error(err)
		}
	}
}

// A client gets its directory from C tor, cold and from its cache, in networks
// of one, three and five authorities.
func TestDirectoryFromCTor(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("%d authorities", n), func(t *testing.T) {
			t.Parallel()
			nw := ctortest.Network(t, ctor.Options{Authorities: n, Relays: 3, Exits: 2})
			desc := nw.Description()
			p := &dirPorts{nw: &desc, answered: map[dirclient.Purpose]int{}}
			dir := t.TempDir()
			cold, d := bootstrap(t, p, dir)
			if d.Len() != n+5 || d.Usability().Path < 1 {
				t.Errorf("%d relays, %+v", d.Len(), d.Usability())
			}
			for _, node := range nw.Routers() {
				r, ok := d.Lookup(node.ID.RSA)
				if !ok || r.ID() != node.ID || r.IPv4() != node.OR || r.Ntor().IsZero() {
					t.Errorf("%s: %+v", node.Name, r.Target())
				}
			}
			asked := p.answered[dirclient.Consensus]
			warm, _ := bootstrap(t, p, dir)
			if p.answered[dirclient.Consensus] != asked {
				t.Errorf("from the cache: %v", p.answered)
			}
			p.allUnderstood(t)
			t.Logf("cold %v, warm %v", cold, warm)
		})
	}
}

func bootstrap(t *testing.T, p *dirPorts, dir string) (time.Duration, *netdir.Directory) {
	t.Helper()
	c := dirclient.New(dirclient.Config{Network: p.nw, Dialer: p, Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- c.Run(ctx) }()
	d, err := c.Wait(ctx)
	took := time.Since(start)
	cancel()
	if rerr := <-done; err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	return took, d
}

// A client follows C tor's authorities from consensus to consensus, by diffs.
func TestDirectoryFollowsCTor(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 3, Exits: 2, VotingInterval: 10 * time.Second})
	desc := nw.Description()
	desc.Testing.VotingInterval = 10 * time.Second
	p := &dirPorts{nw: &desc, answered: map[dirclient.Purpose]int{}}
	c := dirclient.New(dirclient.Config{Network: p.nw, Dialer: p, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	// A new consensus comes every few seconds, unless authorities miss votes.
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	d, err := c.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 2; {
		changed := c.Changed()
		if next := c.Directory(); next != d && next.ValidAfter().After(d.ValidAfter()) {
			n++
			t.Logf("valid after %v, %v", next.ValidAfter(), next.Usability())
			d = next
			if !c.Ready(d, time.Now()) {
				t.Errorf("it is not ready: %+v", d.Usability())
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%d new consensuses; failures %v", n, p.failed)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.requests.String(), "X-Or-Diff-From-Consensus: ") {
		t.Error("it asks for no diffs")
	}
	p.allUnderstood(t)
}
