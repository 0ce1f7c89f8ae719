package daemon

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	life "github.com/chivenet/chive/internal/role"
)

// fakeOnion is a service without a network: its address comes from its directory.
type fakeOnion struct {
	mu        sync.Mutex
	cfg       chive.OnionConfig
	address   string
	published chan struct{}
	ended     context.Context
	end       context.CancelFunc
	reloads   int
	left      bool
	asked     chan struct{} // closed by the first Leave
	stay      chan struct{} // not nil: Leave waits for it
	refuse    error         // what CheckReload and Reload return
	late      error         // what Reload returns
	conns     chan net.Conn // what Accept returns
}

func (f *fakeOnion) CheckReload(cfg chive.OnionConfig) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.refuse, life.CheckReload(&f.cfg, &cfg))
}

func (f *fakeOnion) Address() string { return f.address }
func (f *fakeOnion) Addr() net.Addr  { return nil }

func (f *fakeOnion) Accept() (net.Conn, error) {
	if f.conns == nil {
		<-f.ended.Done()
		return nil, net.ErrClosed
	}
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.ended.Done():
		return nil, net.ErrClosed
	}
}

func (f *fakeOnion) WaitPublished(ctx context.Context) error {
	select {
	case <-f.published:
		return nil
	case <-f.ended.Done():
		return f.ended.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeOnion) Reload(cfg chive.OnionConfig) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reloads++
	err := cmp.Or(f.refuse, f.late)
	if err == nil {
		f.cfg = cfg
	}
	return err
}

func (f *fakeOnion) Status() chive.OnionStatus {
	return chive.OnionStatus{Address: f.address, Published: true, IntroductionPoints: []string{"FE0102"}, Introductions: 7, Rejected: 3, Uploaded: time.Now(),
		PoW: &chive.OnionPoW{SuggestedEffort: 40, Waiting: 2, Verified: 6, Refused: map[string]uint64{"seed": 4, "replayed": 1}}}
}

func (f *fakeOnion) Close() error { f.end(); return nil }

// fakes hosts services that are none.
type fakes struct {
	*onions
	made map[string]*fakeOnion // by directory
	stay chan struct{}         // of the services that are made from now on
	said chan string

	conns chan net.Conn // of the services that are made from now on
}

func newFakes(t *testing.T) *fakes {
	f := &fakes{made: map[string]*fakeOnion{}, said: make(chan string, 100)}
	f.onions = &onions{log: slog.New(slog.DiscardHandler), listen: func(cfg chive.OnionConfig) (onionListener, error) {
		if strings.HasSuffix(cfg.KeyDir, "bad") {
			return nil, fault.New(fault.Config, "%w", fs.ErrPermission)
		}
		ctx, end := context.WithCancel(context.Background())
		one := &fakeOnion{cfg: cfg, address: "at" + strings.TrimRight(filepath.Base(cfg.KeyDir), "+") + ".onion", published: make(chan struct{}), asked: make(chan struct{}), stay: f.stay, conns: f.conns, ended: ctx, end: end}
		f.made[cfg.KeyDir] = one
		return one, nil
	}}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// told reads a file, and returns the services that it tells of.
func told(t *testing.T, file string) ([]hosting, error) {
	t.Helper()
	s := NewProxySettings()
	if err := s.ReadFile("chive.toml", []byte(file)); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s.role.(*proxyRole).Onions.hostings()
}

func hostingsOf(t *testing.T, file string) []hosting {
	t.Helper()
	all, err := told(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (f *fakes) next(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-f.said:
		if got != want {
			t.Errorf("it said %q, not %q", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not say %q", want)
	}
}

const twoOnions = `
socks = ""
[[onion]]
key-dir = "/a"
port = ["80=127.0.0.1:8080", "22=unix:/run/ssh"]
max-streams = 5
max-streams-close-circuit = true
allow-unknown-ports = true
export-circuit-id = "haproxy"
intro-dos-defense = true
intro-dos-rate = 5
pow-defense = true
pow-queue-rate = 50
[[onion]]
key-dir = "/b"
name = "blog"
hide-address = true
port = "80"
introduction-points = 20
`

// TestOnionTables: a proxy's file has the services, each with its own options.
func TestOnionTables(t *testing.T) {
	all := hostingsOf(t, twoOnions)
	want := []chive.OnionConfig{
		{KeyDir: "/a", Ports: []int{}, Targets: map[int]string{80: "127.0.0.1:8080", 22: "unix:/run/ssh"}, IntroductionPoints: 3, MaxStreams: 5, CloseCircuit: true, AllowUnknownPorts: true,
			ExportCircuitID: "haproxy", IntroDoSDefense: true, IntroDoSRate: 5, IntroDoSBurst: 200, PoWDefense: true, PoWQueueRate: 50, PoWQueueBurst: 2500},
		{KeyDir: "/b", Name: "blog", Ports: []int{}, Targets: map[int]string{80: "127.0.0.1:80"}, IntroductionPoints: 20, IntroDoSRate: 25, IntroDoSBurst: 200, PoWQueueRate: 250, PoWQueueBurst: 2500},
	}
	if len(all) != 2 || !all[1].hide || all[0].hide {
		t.Fatalf("%+v", all)
	}
	for i := range all {
		if fmt.Sprint(all[i].OnionConfig) != fmt.Sprint(want[i]) {
			t.Errorf("%+v\nnot %+v", all[i].OnionConfig, want[i])
		}
	}
	for want, file := range map[string]string{
		`chive.toml:2: [[onion]] number 1: unknown key "prot"; did you mean "port"?`: "[[onion]]\nprot = \"80\"\n",
		"chive.toml:7: [[onion]] number 2: max-streams: -1 is not from":              "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\n[[onion]]\nkey-dir=\"b\"\nport=\"80\"\nmax-streams=-1\n",
		"[[onion]] number 1: key-dir: a directory":                                   "[[onion]]\nport=\"80\"\n",
		"chive.toml: [[onion]] number 1: onion service: no port":                     "[[onion]]\nkey-dir=\"a\"\n",
		"chive.toml:3: [[onion]] number 1: port: onion service's target":             "[[onion]]\nkey-dir=\"a\"\nport=\"80=localhost:80\"\n",
		"[[onion]] number 1: max-streams: 5: string, not integer":                    "[[onion]]\nkey-dir=\"a\"\nmax-streams=\"5\"\n",
		"[[onion]] number 1: intro-dos-burst: 5 is less":                             "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\nintro-dos-burst=5\n",
		"[[onion]] number 1: pow-queue-burst: 249 is less":                           "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\npow-queue-burst=249\n",
		"[[onion]] number 1: pow-queue-rate: 0 is not":                               "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\npow-queue-rate=0\n",
		"[[onion]] number 1: introduction-points: 21":                                "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\nintroduction-points=21\n",
		"[[onion]] number 1: export-circuit-id:":                                     "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\nexport-circuit-id=\"proxy\"\n",
		"[[onion]] number 1: name:":                                                  "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\nname=\"two words\"\n",
		"chive.toml:4: [[onion]] number 1: port: entry 2: onion service's":           "[[onion]]\nkey-dir=\"a\"\n\nport=[\"80=127.0.0.1:1\",\"80=x:2\"]\n",
		"two onion services have the key-dir":                                        "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\n[[onion]]\nkey-dir=\"./a\"\nport=\"80\"\n",
		"two onion services have the name x":                                         "[[onion]]\nkey-dir=\"a\"\nport=\"80\"\nname=\"x\"\n[[onion]]\nkey-dir=\"b\"\nport=\"80\"\nname=\"x\"\n",
		"onion: table, not tables: each begins with a line [[onion]]":                "[onion]\nkey-dir=\"a\"\n",
	} {
		if _, err := told(t, file); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nnot %s", err, want)
		}
	}
	// A command without ports reads the same file.
	if err := NewClientSettings().ReadFile("f", []byte(twoOnions)); err != nil {
		t.Error(err)
	}
}

// TestOnionsComeAndGo: services are hosted, reloaded, dropped and added; those that stay
// are the same ones.
func TestOnionsComeAndGo(t *testing.T) {
	f := newFakes(t)
	if err := f.start(hostingsOf(t, twoOnions)); err != nil {
		t.Fatal(err)
	}
	if got := f.lines(); !slices.Equal(got, []string{"onion ata.onion 1"}) {
		t.Errorf("%q", got)
	}
	published := f.watch(t.Context(), func(lines ...string) {
		for _, l := range lines {
			f.said <- l
		}
	})
	close(f.made["/b"].published)
	f.next(t, "published blog")
	select {
	case <-published:
		t.Error("one is not published yet")
	default:
	}
	close(f.made["/a"].published)
	f.next(t, "published 1")
	<-published

	a := f.made["/a"]
	err := f.reload(hostingsOf(t, "socks=\"\"\n[[onion]]\nkey-dir=\"/c\"\nport=\"80\"\n[[onion]]\nkey-dir=\"/a\"\nport=\"81\"\n"), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if f.made["/b"].ended.Err() == nil || a.ended.Err() != nil || f.made["/a"] != a || a.reloads != 1 || a.cfg.Targets[81] == "" || a.cfg.Name != "1" {
		t.Errorf("%+v", a.cfg)
	}
	f.next(t, "onion atc.onion 3")
	close(f.made["/c"].published)
	f.next(t, "published 3")
	if st := f.status(); len(st) != 2 || st[0].Name != "1" || st[1].Name != "3" {
		t.Errorf("%+v", st)
	}
}

// TestOnionMetrics: services have their metrics, and no metric has an address.
func TestOnionMetrics(t *testing.T) {
	f := newFakes(t)
	if err := f.start(hostingsOf(t, twoOnions)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.registry().WritePrometheus(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`chive_onion_published{service="blog"} 1`, `chive_onion_introductions_total{service="1"} 7`, `chive_onion_introductions_rejected_total{service="1"} 3`, `chive_onion_introduction_points{service="1"} 1`,
		`chive_onion_pow_suggested_effort{service="blog"} 40`, `chive_onion_pow_waiting{service="1"} 2`, `chive_onion_pow_verified_total{service="1"} 6`, `chive_onion_pow_refused_total{service="1",reason="seed"} 4`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), ".onion") {
		t.Error("an address is in the metrics")
	}
	b.Reset()
	printOnions(&b, f.status(), time.Now())
	for _, want := range []string{"ata.onion (1)", "atb.onion (blog)", "7 introductions, 3 rejected", "FE0102", "effort 40 suggested; 2 clients wait; 6 proofs accepted, 5 refused"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// TestOnionServeSettings: the options are one service, the tables are more, and a
// proxy's ports in the same file are not opened.
func TestOnionServeSettings(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		args  []string
		lines int
		want  string // in the error
	}{
		"options":        {"key-dir=\"/x\"", []string{"80"}, 1, ""},
		"tables":         {twoOnions, nil, 2, ""},
		"both":           {"key-dir=\"/x\"\n" + twoOnions, []string{"80"}, 3, ""},
		"the same twice": {"key-dir=\"/a\"\n" + twoOnions, []string{"80"}, 0, "two onion services"},
		"nothing":        {"", nil, 0, "key-dir"},
		"only a port":    {twoOnions, []string{"80"}, 0, "key-dir"},
	} {
		s := NewOnionSettings(&c.args)
		err := s.ReadFile("f", []byte(c.file))
		if err == nil {
			err = s.Check()
		}
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		all, herr := s.role.(*onionRole).hostings()
		if err != nil || herr != nil || len(all) != c.lines || all[0].single != (name == "options") {
			t.Errorf("%s: %v %v %+v", name, err, herr, all)
		}
	}
}

// TestOnionChanges: SIGHUP names what changed.
func TestOnionChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(twoOnions)
	s := NewProxySettings()
	if err := s.Load(file); err != nil {
		t.Fatal(err)
	}
	changes := func() (live, waiting []string) {
		next, err := s.Reread()
		if err != nil {
			t.Fatal(err)
		}
		return s.Changes(next.Set)
	}
	if live, waiting := changes(); live != nil || waiting != nil {
		t.Errorf("%q %q", live, waiting)
	}
	write(strings.Replace(twoOnions, "max-streams = 5", "max-streams = 6", 1))
	if live, waiting := changes(); !slices.Equal(live, []string{"onion"}) || waiting != nil {
		t.Errorf("%q %q", live, waiting)
	}
}

func (f *fakeOnion) Leave(ctx context.Context) error {
	if f.leaves(ctx); f.stay == nil {
		return nil
	}
	select {
	case <-f.stay:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeOnion) leaves(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left = ctx.Err() == nil; f.left {
		close(f.asked)
	}
}

// TestRemovedFromFleet: a host of a fleet whose table is gone leaves the fleet before it
// ends, and nothing waits for that, unless its directory is wanted again.
func TestRemovedFromFleet(t *testing.T) {
	fleet := []hosting{{OnionConfig: chive.OnionConfig{KeyDir: "/a", Fleet: true}}}
	gone := func(f *fakes, one *fakeOnion) {
		t.Helper()
		if err := f.reload(nil, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		<-one.asked
		if one.ended.Err() != nil || len(f.status()) != 0 {
			t.Error("it has ended before it left its fleet, or still counts")
		}
	}
	start := func() (*fakes, *fakeOnion) {
		t.Helper()
		f := newFakes(t)
		f.stay = make(chan struct{})
		if err := f.start(fleet); err != nil {
			t.Fatal(err)
		}
		return f, f.made["/a"]
	}

	f, one := start()
	gone(f, one)
	close(one.stay)
	<-one.ended.Done()

	f, one = start()
	gone(f, one)
	if err := f.reload(fleet, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if one.ended.Err() == nil || f.made["/a"] == one || len(f.status()) != 1 {
		t.Error("the directory is in use twice")
	}

	f, one = start() // shutdown waits for it, too
	gone(f, one)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { defer close(left); f.leaveAll(ctx) }()
	cancel()
	<-left
	if err := f.close(); err != nil || one.ended.Err() == nil { // and its end does not
		t.Errorf("%v, ended: %v", err, one.ended.Err())
	}
}

// TestLeavesFleet: services leave their fleets when their process ends, also those of a
// proxy, however short its time for connections is.
func TestLeavesFleet(t *testing.T) {
	for name, n := range map[string]func(*fakes) node{
		"onion": func(f *fakes) node { return &onionNode{onions: f.onions, log: f.log} },
		"proxy": func(f *fakes) node { return &proxyNode{onions: f.onions, ports: new(localPorts), log: f.log} },
	} {
		f := newFakes(t)
		if err := f.start([]hosting{{OnionConfig: chive.OnionConfig{KeyDir: "/a", Fleet: true}}}); err != nil {
			t.Fatal(err)
		}
		if err := n(f).shutdown(t.Context()); err != nil {
			t.Error(name, err)
		}
		one := f.made["/a"]
		one.mu.Lock()
		if !one.left {
			t.Errorf("%s: the service is still in its fleet", name)
		}
		one.mu.Unlock()
	}
}

// TestLabels: no two services have the same name in lines and metrics, although one's name
// is the number of another.
func TestLabels(t *testing.T) {
	f := newFakes(t)
	one := func(name string, single bool) hosting {
		return hosting{OnionConfig: chive.OnionConfig{KeyDir: "/" + name + "x", Name: name}, single: single}
	}
	if err := f.start([]hosting{one("", false), one("1", false)}); err != nil {
		t.Fatal(err)
	}
	if a, b := f.all[0].label, f.all[1].label; a == b {
		t.Errorf("both are called %s", a)
	}
	f = newFakes(t)
	alone := one("", true)
	if err := f.start([]hosting{alone}); err != nil {
		t.Fatal(err)
	}
	if err := f.reload([]hosting{alone, one("1", false)}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if a, b := f.all[0].label, f.all[1].label; a == b {
		t.Errorf("after a reload, both are called %s", a)
	}
}

// TestSeveralTargets: of one port's targets, none is lost: neither those of the file nor those
// of the command line.
func TestSeveralTargets(t *testing.T) {
	o := Onion{KeyDir: "a", Ports: []string{"80=127.0.0.1:1", "22", "80=unix:/b"}}
	c, err := o.config([]string{"80=127.0.0.1:3"})
	if err != nil || c.Targets[80] != "127.0.0.1:1" || c.Targets[22] != "127.0.0.1:22" || len(c.Targets) != 2 || len(c.MoreTargets) != 1 ||
		!slices.Equal(c.MoreTargets[80], []string{"unix:/b", "127.0.0.1:3"}) {
		t.Errorf("%v %v %v", c.Targets, c.MoreTargets, err)
	}
}
