package hsservice

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

func someClient(t *testing.T) ident.X25519Key {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	pub, _, err := NewClient(k.Address())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseClient(pub)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReloadClients: other clients make other descriptors; one that was removed makes
// other introduction points, too, and the old ones end as soon as no descriptor names
// them.
func TestReloadClients(t *testing.T) {
	alice, bob := someClient(t), someClient(t)
	for name, c := range map[string]struct {
		before, after   []ident.X25519Key
		content, revoke bool
	}{
		"the same":             {[]ident.X25519Key{alice, bob}, []ident.X25519Key{bob, alice}, false, false},
		"nobody":               {nil, nil, false, false},
		"one more":             {[]ident.X25519Key{alice}, []ident.X25519Key{alice, bob}, true, false},
		"one less":             {[]ident.X25519Key{alice, bob}, []ident.X25519Key{alice}, true, true},
		"no longer for all":    {nil, []ident.X25519Key{alice}, true, true},
		"for all from now on":  {[]ident.X25519Key{alice}, nil, true, false},
		"another in his place": {[]ident.X25519Key{alice}, []ident.X25519Key{bob}, true, true},
	} {
		s, now := quiet(t), time.Now()
		if err := s.Reload(Live{Clients: c.before}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if err := s.setPeriods([2]period{{Period: somePeriod()}, {Period: somePeriod().Next()}}); err != nil {
			t.Fatal(err)
		}
		old := up(t, s, 1, now)
		before := contentOf(s.descs[0], nil, nil, "")
		s.mu.Unlock()
		if err := s.Reload(Live{Clients: c.after, Points: 1}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.notBefore = now.Add(time.Hour) // the test launches by itself
		if changed := contentOf(s.descs[0], nil, nil, "") != before; changed != c.content {
			t.Errorf("%s: another descriptor: %v", name, changed)
		}
		if old.old(now) != c.revoke {
			t.Errorf("%s: another introduction point: %v", name, old.old(now))
		}
		if c.revoke {
			up(t, s, 2, now)
			s.tendPoints(now)
			if !old.replaced || !slices.Contains(s.points, old) {
				t.Errorf("%s: replaced %v", name, old.replaced)
			}
			old.circ = nil // there is none to close
			old.outSince = now
			if s.tendPoints(now); slices.Contains(s.points, old) {
				t.Errorf("%s: the old point stays", name)
			}
		}
		s.mu.Unlock()
		down(s)
	}
}

// TestReloadBackend: a frontend that removes a client cannot replace its backends'
// introduction points, and says so; a backend replaces them when it is told to reload.
func TestReloadBackend(t *testing.T) {
	alice, bob := someClient(t), someClient(t)
	var log bytes.Buffer
	front, err := New(Config{Key: key(t), Circuits: nowhere{}, Backends: []ident.Ed25519ID{key(t).ID()}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Live: Live{Clients: []ident.X25519Key{alice, bob}}})
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	const word = "know" // "knows the introduction points of the backends"
	for _, c := range []struct {
		clients []ident.X25519Key
		warned  bool
	}{{[]ident.X25519Key{alice, bob, someClient(t)}, false}, {[]ident.X25519Key{alice}, true}} {
		log.Reset()
		if err := front.Reload(Live{Clients: c.clients}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), word); got != c.warned {
			t.Errorf("%d clients: %q", len(c.clients), log.String())
		}
	}
	for _, masters := range [][]ident.Ed25519ID{nil, {key(t).ID()}} {
		s, now := quiet(t), time.Now()
		s.mu.Lock()
		s.cfg.Masters = masters
		p := up(t, s, 1, now)
		s.notBefore = now.Add(time.Hour) // the test launches nothing
		s.mu.Unlock()
		if err := s.Reload(Live{Points: 1}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if p.old(now) != (masters != nil) || p.revoked {
			t.Errorf("with %d masters: replaced %v, at once %v", len(masters), p.old(now), p.revoked)
		}
		s.mu.Unlock()
		down(s)
	}
}

func somePeriod() hscrypto.Period {
	return hscrypto.PeriodAt(time.Now(), hscrypto.DefaultPeriod, 12*time.Hour)
}

// TestReloadRefused: a setting that cannot be leaves everything as it is.
func TestReloadRefused(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	if err := s.Reload(Live{MaxStreams: 5}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []Live{{Points: MaxPoints + 1}, {MaxStreams: -1}, {IntroLimit: &cell.IntroDoS{RatePerSec: 2, BurstPerSec: 1}}} {
		if err := s.Reload(l); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if l := s.live.Load(); l.MaxStreams != 5 || l.Points != DefaultPoints {
		t.Errorf("%+v", l)
	}
	s.Close()
	if err := s.Reload(Live{}); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

// TestFewerPoints: when fewer introduction points are wanted, the rest are replaced.
func TestFewerPoints(t *testing.T) {
	s, now := quiet(t), time.Now()
	defer down(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range byte(5) {
		up(t, s, i+1, now)
	}
	s.tendPoints(now)
	if n := s.establishedLocked(); n != DefaultPoints {
		t.Errorf("%d points are left", n)
	}
}

// slow is a client whose circuits take forever to build.
type slow struct {
	nowhere
	begun, given chan struct{}
}

func (n slow) Build(ctx context.Context, _ path.Spec) (*circuit.Circuit, uint64, error) {
	n.begun <- struct{}{}
	<-ctx.Done()
	n.given <- struct{}{}
	return nil, 0, context.Cause(ctx)
}

// TestExtraPoints: at the start, more points are launched than wanted; when enough
// stand, the other launches end.
func TestExtraPoints(t *testing.T) {
	n := slow{begun: make(chan struct{}, 100), given: make(chan struct{}, 100)}
	s, now := hostedOn(t, n), time.Now()
	s.mu.Lock()
	s.extra = extraPoints
	s.tendPoints(now)
	all := slices.Clone(s.points)
	s.mu.Unlock()
	if len(all) != DefaultPoints+extraPoints {
		t.Fatalf("%d launches", len(all))
	}
	for range all {
		<-n.begun
	}
	stand := func(i int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p := all[i]
		p.building, p.circ, p.target.RSA = false, new(circuit.Circuit), ident.RSAID{byte(i + 1)}
		s.dropSurplusLocked(now)
		s.tendPoints(now)
	}
	stand(4)
	stand(0)
	if len(s.Status().Points) != 2 || s.Status().Launching != 3 {
		t.Errorf("%+v", s.Status())
	}
	stand(2)
	for range 2 {
		select {
		case <-n.given:
		case <-time.After(patience):
			t.Fatal("a launch that is not needed goes on")
		}
	}
	if st := s.Status(); len(st.Points) != DefaultPoints || st.Launching != 0 {
		t.Errorf("%+v", st)
	}
	down(s)
}

// TestLength: numbers that make descriptors too long are refused before anything is
// uploaded, with what would be possible, and that is possible.
func TestLength(t *testing.T) {
	long(t)
	for _, c := range []struct {
		points, clients int
		want            string
	}{
		{DefaultPoints, MaxClients, ""}, {10, 192, ""}, {16, 192, "at most"}, {MaxPoints, MaxClients, "at most"},
	} {
		err := checkLength(c.points, c.clients)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d points, %d clients: %v", c.points, c.clients, err)
		}
	}
	// Each of the two numbers that the error names is the last that is possible.
	var less, fewer int
	_, tail, _ := strings.Cut(checkLength(16, 192).Error(), "; ")
	if n, err := fmt.Sscanf(tail, "with as many clients at most %d introduction points are possible, with as many introduction points at most %d clients", &less, &fewer); n != 2 {
		t.Fatal(tail, err)
	}
	if checkLength(less, 192) != nil || checkLength(less+1, 192) == nil || checkLength(16, fewer) != nil || checkLength(16, fewer+1) == nil {
		t.Errorf("%d points, %d clients", less, fewer)
	}
}

// TestLongDescriptor: beside new points, old ones have a place in the descriptor only
// as long as it is not too long.
func TestLongDescriptor(t *testing.T) {
	long(t)
	s, x := made(t)
	x.keys.Clients = make([]ident.X25519Key, 192)
	for i := range x.keys.Clients {
		x.keys.Clients[i] = someClient(t)
	}
	s.live.Store(&Live{Points: 10})
	all := points(t)
	for len(all) < 25 {
		all = append(all, all[0])
	}
	if err := s.make(x, all, [32]byte{1}, time.Now()); err != nil || len(x.doc.Text) > netdoc.MaxHSDescriptor {
		t.Errorf("%v", err)
	}
	for range 256 {
		x.keys.Clients = append(x.keys.Clients, x.keys.Clients[0])
	}
	if err := s.make(x, all, [32]byte{1}, time.Now()); err == nil || !strings.Contains(err.Error(), "50000 bytes that directories take") {
		t.Errorf("%v", err)
	}
}

// TestExportLine has C tor's lines: the format of export_hs_client_circuit_id, which its
// own tests (test_hs_service.c, test_export_client_circuit_id) check with these numbers.
func TestExportLine(t *testing.T) {
	for number, want := range map[uint64]string{
		666:         "PROXY TCP6 fc00:dead:beef:4dad::0:29a ::1 666 42\r\n",
		22:          "PROXY TCP6 fc00:dead:beef:4dad::0:16 ::1 22 42\r\n",
		4294967295:  "PROXY TCP6 fc00:dead:beef:4dad::ffff:ffff ::1 65535 42\r\n",
		4294967296:  "PROXY TCP6 fc00:dead:beef:4dad::0:0 ::1 0 42\r\n",
		1<<32 + 666: "PROXY TCP6 fc00:dead:beef:4dad::0:29a ::1 666 42\r\n",
	} {
		got := exportLine(number, 42)
		if got != want {
			t.Errorf("%d: %q", number, got)
		}
		if a := netip.MustParseAddr(strings.Fields(got)[2]); a != CircuitAddr(number) {
			t.Errorf("%d: %v, and %v", number, a, CircuitAddr(number))
		}
	}
	a, b := net.Pipe()
	go func() {
		if err := exportCircuit(a, 666, 42); err != nil {
			t.Error(err)
		}
		a.Close()
	}()
	if got, err := io.ReadAll(b); err != nil || string(got) != exportLine(666, 42) {
		t.Errorf("%q %v", got, err)
	}
}

// inDirectory is a client that has a directory, and excludes some of its relays.
type inDirectory struct {
	nowhere
	d       *netdir.Directory
	exclude map[ident.RSAID]bool
}

func (n *inDirectory) Directory() (*netdir.Directory, <-chan struct{}) { return n.d, nil }
func (n *inDirectory) Refused(t *linkspec.Target) error {
	if n.exclude[t.RSA] {
		return fault.New(fault.Refused, "excluded")
	}
	return nil
}
func (n *inDirectory) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return n.To(ctx, t, nil)
}

func (n *inDirectory) To(ctx context.Context, t linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	if n.exclude[t.RSA] {
		n.calls <- t
	}
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}

// hostedOn is a service on a client's circuits.
func hostedOn(t *testing.T, c Circuits) *Service {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: k, Circuits: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func someDirectory(t *testing.T) *netdir.Directory {
	t.Helper()
	n, err := dirgen.New(dirgen.Options{Relays: 30, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Publish(time.Now()); err != nil {
		t.Fatal(err)
	}
	d, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestExcludedDirectories: directories that the user excludes are neither asked nor
// waited for.
func TestExcludedDirectories(t *testing.T) {
	d := someDirectory(t)
	synctest.Test(t, func(t *testing.T) {
		_, x := made(t)
		dirs := x.period.directories(d, x.keys.Blinded.Public())
		if len(dirs) < 4 {
			t.Fatalf("%d directories", len(dirs))
		}
		calls := make(chan linkspec.Target, 100)
		s := hostedOn(t, &inDirectory{nowhere{calls: calls}, d, map[ident.RSAID]bool{dirs[0].RSA(): true, dirs[2].RSA(): true}})
		allowed := s.allowed(dirs)
		if len(allowed) != len(dirs)-2 || slices.ContainsFunc(allowed, func(r netdir.Relay) bool { return r.RSA() == dirs[0].RSA() }) {
			t.Errorf("%d of %d", len(allowed), len(dirs))
		}
		s.mu.Lock()
		if err := s.make(x, points(t), [32]byte{1}, time.Now()); err != nil {
			t.Fatal(err)
		}
		x.left = dirs // as they were before the user excluded some
		s.publish(d, x)
		s.mu.Unlock()
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(calls) > 0 {
			t.Error("an excluded directory was asked")
		}
		if x.busy || len(x.left) != len(allowed) {
			t.Errorf("%d directories are waited for, not %d", len(x.left), len(allowed))
		}
	})
}

const patience = 30 * time.Second

// TestIntroExts: a relay that does not know the extension never gets it.
func TestIntroExts(t *testing.T) {
	d := someDirectory(t)
	s := hostedOn(t, &inDirectory{d: d})
	limit := &cell.IntroDoS{RatePerSec: 7, BurstPerSec: 70}
	with, without := 0, 0
	for i := range d.Len() {
		r := d.Relay(i)
		target := r.Target()
		s.live.Store(&Live{})
		if exts := s.introExts(&target); exts != nil {
			t.Errorf("nobody asked for %v", exts)
		}
		s.live.Store(&Live{IntroLimit: limit})
		exts := s.introExts(&target)
		if knows := r.Protocols().Has("HSIntro", 5); knows != (len(exts) == 1) {
			t.Errorf("a relay that knows it: %v; extensions: %v", knows, exts)
		}
		if len(exts) == 0 {
			without++
			continue
		}
		with++
		if got, err := cell.ParseIntroDoS(exts[0].Body); err != nil || got != *limit || exts[0].Type != cell.ExtIntroDoS {
			t.Errorf("%+v %v", got, err)
		}
	}
	t.Logf("%d relays know it, %d do not", with, without)
	if stranger := (linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{9}}}); s.introExts(&stranger) != nil {
		t.Error("nobody knows what this relay knows")
	}
}

// TestIdleBound: circuits without streams are bounded in number. The one that has been idle for
// the longest time makes room, if its client has done less work than is suggested, or all have.
func TestIdleBound(t *testing.T) {
	s, now := quiet(t), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(age time.Duration, streams int64) *circuit.Circuit {
		c := new(circuit.Circuit)
		r := &rendezvous{idle: now.Add(-age)}
		r.open.Store(streams)
		s.rends[c] = r
		return c
	}
	for range maxIdle - 1 {
		add(time.Second, 0)
	}
	busy := add(time.Hour, 1)
	oldest := add(time.Minute, 0)
	s.boundIdleLocked()
	if s.rends[oldest] == nil || len(s.rends) != maxIdle+1 {
		t.Fatal("one was closed although there was room")
	}
	// Closing needs a circuit that is one: only the choice is looked at.
	if got := s.worstIdleLocked(maxIdle); got != nil {
		t.Error("one would be closed although there is room")
	}
	add(0, 0)
	if got := s.worstIdleLocked(maxIdle); got != oldest || got == busy {
		t.Error("another one makes room")
	}
	// Where work is suggested, those that have done it are the last.
	cheap := add(10*time.Second, 0)
	for c, r := range s.rends {
		if r.effort = 20; c == cheap {
			r.effort = 19
		}
	}
	if s.worstIdleLocked(maxIdle) != oldest {
		t.Error("an effort counts that nobody suggests")
	}
	s.work.control.Update(now, 20, false)
	for range 20 {
		s.work.control.Served(true)
		s.work.control.Update(now.Add(hspow.ControlEvery), 1000, false)
		now = now.Add(hspow.ControlEvery)
	}
	if s.work.suggested() != 20 || s.worstIdleLocked(maxIdle) != cheap {
		t.Errorf("effort %d is suggested, and another one makes room", s.work.suggested())
	}
	clear(s.rends) // they are none that can be closed
}

// TestStatus: what there is, and what happened, can be read while the service runs.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, now := quiet(t), time.Now()
		if err := s.Reload(Live{Clients: []ident.X25519Key{someClient(t)}}); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		up(t, s, 1, now)
		up(t, s, 2, now).replaced = true
		p, err := newPoint(now)
		if err != nil {
			t.Fatal(err)
		}
		p.building = true
		s.points = append(s.points, p)
		s.mu.Unlock()
		if err := s.introduced(p, nil, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := s.Status()
		if len(st.Points) != 1 || st.Points[0] != (ident.RSAID{1}) || st.Launching != 1 || st.Clients != 1 || st.Introductions != 1 || st.Rejected != 1 || st.Published {
			t.Errorf("%+v", st)
		}
		down(s)
	})
}
