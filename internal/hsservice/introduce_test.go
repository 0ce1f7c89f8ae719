package hsservice

import (
	"context"
	"crypto/rand"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
)

// nowhere is a client that has no directory, and can build nothing.
type nowhere struct {
	testing, congestion bool
	cgo                 bool                 // hosted: the service offers CGO
	calls               chan linkspec.Target // of To; nil: not told
}

func (nowhere) Directory() (*netdir.Directory, <-chan struct{}) { return nil, nil }
func (nowhere) Build(context.Context, path.Spec) (*circuit.Circuit, uint64, error) {
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}
func (n nowhere) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return n.To(ctx, t, nil)
}

func (n nowhere) To(_ context.Context, t linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	if n.calls != nil {
		n.calls <- t
	}
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}
func (nowhere) Met() {}

func (n nowhere) Flow() (*flow.Params, bool) {
	p := flow.DefaultParams()
	return &p, n.congestion
}
func (n nowhere) Refused(*linkspec.Target) error { return nil }
func (n nowhere) Testing() bool                  { return n.testing }
func (n nowhere) Knows(*linkspec.Target) bool    { return true }

// hosted is a service with one introduction point, without any network.
func hosted(t testing.TB, n Network) (*Service, *point) {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Key: k, Network: n}
	if n, ok := n.(nowhere); ok {
		cfg.CGO = n.cgo
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	p, err := newPoint(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.descs = []*descriptor{new(descriptor)}
	p.of = s.descs[0]
	s.points = append(s.points, p)
	if _, congestion := n.Flow(); congestion {
		s.inc, p.inc = 31, 31
	}
	s.subcreds = [][32]byte{{1}, {2}}
	return s, p
}

// asking is what a client puts into an introduction.
type asking struct {
	cookie  byte
	specs   []linkspec.Spec
	exts    []cell.Ext
	onion   ident.X25519Key
	subcred [32]byte
	auth    *ident.Ed25519ID // nil: the point's
}

func relaySpecs(addr string) []linkspec.Spec {
	t := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort(addr)}}
	return t.Specs()
}

func ask() asking {
	return asking{cookie: 1, specs: relaySpecs("8.8.8.8:9001"), onion: ident.X25519Key{9}, subcred: [32]byte{2}}
}

func (a asking) message(t *testing.T, p *point) []byte {
	t.Helper()
	auth := p.id()
	if a.auth != nil {
		auth = *a.auth
	}
	c, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.enc.Public(), Auth: p.id(), Subcredential: a.subcred})
	if err != nil {
		t.Fatal(err)
	}
	plain := cell.IntroducePlaintext{Cookie: [cell.CookieLen]byte{a.cookie}, Exts: a.exts, Onion: a.onion, Specs: linkspec.Append(nil, a.specs)}
	m := cell.Introduce{AuthKey: auth}
	m.Encrypted = c.Introduce(m.AppendHeader(nil), append(plain.Append(nil), make([]byte, 40)...))
	return append(m.AppendHeader(nil), m.Encrypted...)
}

// decrypt opens an introduction and accepts it, as a service does that asks for no proofs
// of work.
func (s *Service) decrypt(p *point, body []byte, now time.Time) (*rendRequest, error) {
	m, err := s.open(p, body, now)
	if err != nil {
		return nil, err
	}
	return m, s.accept(p, m, now)
}

func TestIntroduction(t *testing.T) {
	s, p := hosted(t, nowhere{})
	a := ask()
	a.specs = append(a.specs, linkspec.Spec{Type: 77, Body: []byte("of a later version")})
	m, err := s.decrypt(p, a.message(t, p), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if m.cookie != [cell.CookieLen]byte{1} || m.target.Ntor != a.onion || m.target.RSA != (ident.RSAID{1}) || m.congestion {
		t.Errorf("%+v", m)
	}
	if len(m.specs) != len(a.specs) || string(m.specs[3].Body) != "of a later version" {
		t.Errorf("the specifiers must go on as they came: %v", m.specs)
	}
}

func TestIntroductionRefused(t *testing.T) {
	other := ident.Ed25519ID{5}
	for name, c := range map[string]struct {
		change func(*asking)
		n      nowhere
		want   string
	}{
		"a stranger's secret":   {func(a *asking) { a.subcred[0] = 9 }, nowhere{}, "authentication failed"},
		"another point's key":   {func(a *asking) { a.auth = &other }, nowhere{}, "another introduction point"},
		"loopback":              {func(a *asking) { a.specs = relaySpecs("127.0.0.1:22") }, nowhere{}, "private address"},
		"a private network":     {func(a *asking) { a.specs = relaySpecs("192.168.1.1:80") }, nowhere{}, "private address"},
		"a private IPv6 one":    {func(a *asking) { a.specs = relaySpecs("[fd00::1]:80") }, nowhere{}, "private address"},
		"no specifiers":         {func(a *asking) { a.specs = nil }, nowhere{}, "identity"},
		"no RSA identity":       {func(a *asking) { a.specs = append(a.specs[:1:1], a.specs[2:]...) }, nowhere{}, "identity"},
		"no Ed25519 identity":   {func(a *asking) { a.specs = a.specs[:2] }, nowhere{}, "Ed25519"},
		"no onion key":          {func(a *asking) { a.onion = ident.X25519Key{} }, nowhere{}, "onion key"},
		"small order":           {func(a *asking) { a.onion = ident.X25519Key{1} }, nowhere{}, "onion key"},
		"zeros, the last bit":   {func(a *asking) { a.onion = ident.X25519Key{31: 0x80} }, nowhere{}, "onion key"},
		"unwanted congestion":   {func(a *asking) { a.exts = []cell.Ext{cell.CCRequest()} }, nowhere{}, "congestion control"},
		"an unasked work":       {func(a *asking) { a.exts = []cell.Ext{(&cell.PoW{Effort: 7}).Ext()} }, nowhere{}, ""},
		"a private one, tested": {func(a *asking) { a.specs = relaySpecs("127.0.0.1:22") }, nowhere{testing: true}, ""},
		"congestion, offered":   {func(a *asking) { a.exts = []cell.Ext{cell.CCRequest()} }, nowhere{congestion: true}, ""},
	} {
		s, p := hosted(t, c.n)
		a := ask()
		c.change(&a)
		_, err := s.decrypt(p, a.message(t, p), time.Now())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIntroductionCGO: a client gets the layer that it asks for, or nothing.
func TestIntroductionCGO(t *testing.T) {
	request := func(body ...byte) cell.Ext { return cell.Ext{Type: cell.ExtSubprotoRequest, Body: body} }
	cc, cgo, both := cell.CCRequest(), circuit.RequestCGO(), nowhere{congestion: true, cgo: true}
	for name, c := range map[string]struct {
		exts []cell.Ext
		n    nowhere
		want string // an error
		cgo  bool
	}{
		"asked and offered":          {[]cell.Ext{cc, cgo}, both, "", true},
		"in another order":           {[]cell.Ext{cgo, cc}, both, "", true},
		"not asked":                  {[]cell.Ext{cc}, both, "", false},
		"an empty request":           {[]cell.Ext{cc, request()}, both, "", false},
		"not offered":                {[]cell.Ext{cc, cgo}, nowhere{congestion: true}, "does not offer", false},
		"without congestion control": {[]cell.Ext{cgo}, both, "without congestion control", false},
		"no congestion control here": {[]cell.Ext{cc, cgo}, nowhere{cgo: true}, "congestion control", false},
		"twice":                      {[]cell.Ext{cc, cgo, cgo}, both, "two subprotocol requests", false},
		"twice, once for nothing":    {[]cell.Ext{cc, request(), cgo}, both, "two subprotocol requests", false},
		"something else":             {[]cell.Ext{cc, request(2, 5)}, both, "2=5 was requested", false},
		"something else beside it":   {[]cell.Ext{cc, request(2, 6, 11, 2)}, both, "11=2 was requested", false},
		"repeated inside":            {[]cell.Ext{cc, request(2, 6, 2, 6)}, both, "not sorted", false},
		"out of order":               {[]cell.Ext{cc, request(11, 2, 2, 6)}, both, "not sorted", false},
		"half of it":                 {[]cell.Ext{cc, request(2)}, both, "bytes wanted", false},
		"a byte too many":            {[]cell.Ext{cc, request(2, 6, 0)}, both, "bytes wanted", false},
		"as long as one can be":      {[]cell.Ext{cc, request(make([]byte, 255)...)}, both, "subprotocol", false},
	} {
		s, p := hosted(t, c.n)
		a := ask()
		a.exts = c.exts
		m, err := s.decrypt(p, a.message(t, p), time.Now())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (m.cgo != c.cgo || !m.congestion) {
			t.Errorf("%s: %+v", name, m)
		}
		if err != nil && len(p.replayed.seen)+len(s.cookies.fresh) != 0 {
			t.Errorf("%s: what was refused is remembered", name)
		}
	}
}

// Whatever part of a message is missing or changed, it is refused, and nothing of it
// is remembered: a spoilt copy must not keep the true one out.
func TestIntroductionSpoilt(t *testing.T) {
	s, p := hosted(t, nowhere{})
	good := ask().message(t, p)
	for n := range good {
		if _, err := s.decrypt(p, good[:n], time.Now()); err == nil {
			t.Fatalf("%d of %d bytes are accepted", n, len(good))
		}
		spoilt := append([]byte(nil), good...)
		spoilt[n] ^= 0x20
		if _, err := s.decrypt(p, spoilt, time.Now()); err == nil {
			t.Fatalf("a change of byte %d is accepted", n)
		}
	}
	if len(p.replayed.seen) != 0 || len(s.cookies.fresh) != 0 {
		t.Errorf("%d and %d are remembered", len(p.replayed.seen), len(s.cookies.fresh))
	}
	if _, err := s.decrypt(p, good, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestIntroductionReplayed(t *testing.T) {
	s, p := hosted(t, nowhere{})
	now := time.Now()
	m := ask().message(t, p)
	if _, err := s.decrypt(p, m, now); err != nil {
		t.Fatal(err)
	}
	if _, err := s.decrypt(p, m, now.Add(time.Hour)); err == nil {
		t.Error("an introduction is accepted twice")
	}
	// The client's cookie again, in another message.
	if _, err := s.decrypt(p, ask().message(t, p), now.Add(cookieLife-time.Second)); err == nil {
		t.Error("a cookie is accepted twice")
	}
	if _, err := s.decrypt(p, ask().message(t, p), now.Add(2*cookieLife)); err != nil {
		t.Errorf("a cookie is remembered too long: %v", err)
	}
}

func TestIntroductionsAreCounted(t *testing.T) {
	s, p := hosted(t, nowhere{})
	p.introsLeft = 1 - maxIntros
	m := ask().message(t, p)
	if _, err := s.decrypt(p, m, time.Now()); err != nil {
		t.Fatal(err)
	}
	a := ask()
	a.cookie++
	if _, err := s.decrypt(p, a.message(t, p), time.Now()); !fault.Is(err, fault.Resource) {
		t.Errorf("%v", err)
	}
}

// More introductions than may wait are dropped; none is a violation of the
// introduction point's.
func TestIntroductionFlood(t *testing.T) {
	s, p := hosted(t, nowhere{})
	for range 10 * maxWaiting {
		if err := s.queueIntroduce2(p, nil, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
	}
}

// A rendezvous is tried twice, and no more.
func TestRendezvousTries(t *testing.T) {
	calls := make(chan linkspec.Target, 10)
	s, p := hosted(t, nowhere{calls: calls})
	m, err := s.decrypt(p, ask().message(t, p), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rendezvous(t.Context(), m); err == nil {
		t.Error("it worked")
	}
	if len(calls) != rendTries {
		t.Errorf("%d tries", len(calls))
	}
}

// The memory of cookies has a bound, and what does not fit is forgotten: nobody can
// fill it and so keep all others out.
func TestCookies(t *testing.T) {
	var c cookies
	now := time.Now()
	cookie := func(i int) [cell.CookieLen]byte { return [cell.CookieLen]byte{byte(i), byte(i >> 8), byte(i >> 16)} }
	c.add(cookie(0), now)
	for at, want := range map[time.Duration]bool{0: true, cookieLife - 1: true, 2 * cookieLife: false} {
		c := cookies{fresh: c.fresh, since: now}
		if c.knows(cookie(0), now.Add(at)) != want {
			t.Errorf("after %v a cookie is known: %v", at, !want)
		}
	}
	for i := range 3 * maxCookies {
		if i > 0 && c.knows(cookie(i), now) {
			t.Fatalf("cookie %d is refused", i)
		}
		c.add(cookie(i), now)
		if n := len(c.fresh) + len(c.old); n > maxCookies {
			t.Fatalf("%d are kept", n)
		}
	}
	if !c.knows(cookie(3*maxCookies-maxCookies/2), now) {
		t.Error("a recent cookie is forgotten")
	}
	if c.forget(now.Add(cookieLife)); !c.knows(cookie(3*maxCookies-1), now.Add(cookieLife)) {
		t.Error("the last cookie is forgotten at the end of the first one's time")
	}
	if c.forget(now.Add(3 * cookieLife)); len(c.fresh)+len(c.old) != 0 {
		t.Error("old cookies stay")
	}
}

func TestPublishedSaysWhatIsWrong(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	s.noteProblem(fault.New(fault.Network, "the sea is rough"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitPublished(ctx); !fault.Is(err, fault.Closed) || !strings.Contains(err.Error(), "the sea is rough") {
		t.Error(err)
	}
	s.Close()
	if err := s.WaitPublished(t.Context()); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
	if _, err := s.Accept(); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	with := func(l Live) Config { return Config{Key: k, Network: nowhere{}, Live: l} }
	for _, c := range []Config{{Key: k}, {Network: nowhere{}}, with(Live{IntroductionPoints: MaxPoints + 1}), with(Live{MaxStreams: -1}),
		with(Live{Clients: make([]ident.X25519Key, MaxClients+1)}), with(Live{Clients: make([]ident.X25519Key, MaxClients), IntroductionPoints: MaxPoints}),
		with(Live{IntroLimit: &cell.IntroDoS{RatePerSec: 5, BurstPerSec: 4}}), with(Live{IntroLimit: &cell.IntroDoS{RatePerSec: -1, BurstPerSec: 4}})} {
		if s, err := New(c); err == nil {
			s.Close()
			t.Errorf("%d points, %d clients, %d streams, %v", c.IntroductionPoints, len(c.Clients), c.MaxStreams, c.IntroLimit)
		}
	}
	if hscrypto.Address(k.ID()) != k.Address() {
		t.Error("address")
	}
}
