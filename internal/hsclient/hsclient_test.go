package hsclient

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// madeNet is a directory of made-up relays, and a service in it.
var madeNet = sync.OnceValue(func() *netdir.Directory {
	n, err := dirgen.New(dirgen.Options{Relays: 60})
	if err != nil {
		panic(err)
	}
	d, err := n.Directory()
	if err != nil {
		panic(err)
	}
	return d
})

// fakeNet has a directory, and no circuits.
type fakeNet struct {
	dir     func(ctx context.Context) (*netdir.Directory, error)
	refused map[ident.RSAID]bool
	cc      bool

	mu sync.Mutex
	to []ident.RSAID // relays to which circuits were asked for
}

var errNoCircuit = fault.New(fault.Network, "there are no circuits here")

func (f *fakeNet) Directory(ctx context.Context) (*netdir.Directory, error) {
	if f.dir != nil {
		return f.dir(ctx)
	}
	return madeNet(), nil
}
func (f *fakeNet) Internal(context.Context, bool) (Circuit, error) { return nil, errNoCircuit }
func (f *fakeNet) To(_ context.Context, t linkspec.Target, _ []linkspec.Spec) (Circuit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = append(f.to, t.RSA)
	return nil, errNoCircuit
}
func (f *fakeNet) Refused(t *linkspec.Target) error {
	if f.refused[t.RSA] {
		return fault.New(fault.Refused, "excluded")
	}
	return nil
}
func (f *fakeNet) Flow() (*flow.Params, bool) {
	p := flow.DefaultParams()
	return &p, f.cc
}

func newClient(t *testing.T, f *fakeNet) *Client {
	t.Helper()
	c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler), Keys: Keys{}})
	t.Cleanup(c.Close)
	return c
}

// made is a service and its descriptor.
type madeService struct {
	service
	key   *cert.ExpandedKey // of the period
	inner netdoc.HSInner
	enc   *handshake.NtorKeyPair
}

func newService(t *testing.T) *madeService {
	t.Helper()
	secret, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := madeNet().HSTimes(false).Period
	b, err := hscrypto.BlindSecret([64]byte(secret.Bytes()), p)
	if err != nil {
		t.Fatal(err)
	}
	s := &madeService{}
	if s.key, err = cert.NewBlinded(b[:]); err != nil {
		t.Fatal(err)
	}
	s.id, s.blinded = secret.Public(), s.key.Public()
	s.subcredential = hscrypto.Subcredential(s.id, s.blinded)
	if s.enc, err = handshake.GenerateNtorKeyPair(rand.Reader); err != nil {
		t.Fatal(err)
	}
	at := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:443")}}
	s.inner.Points = []netdoc.HSIntroPoint{{Specs: at.Specs(), Onion: s.enc.Public(), Auth: ident.Ed25519ID{9}, Enc: s.enc.Public()}}
	return s
}

func (s *madeService) descriptor(t *testing.T, now time.Time, clients ...ident.X25519Key) []byte {
	t.Helper()
	d, err := netdoc.EncodeHSDescriptor(rand.Reader, &netdoc.HSKeys{Blinded: s.key, Subcredential: s.subcredential, Clients: clients}, 7, &s.inner, now)
	if err != nil {
		t.Fatal(err)
	}
	return d.Text
}

// TestRead: what a directory sends is believed only when it is this service's.
func TestRead(t *testing.T) {
	now := time.Now()
	s, other := newService(t), newService(t)
	c := newClient(t, &fakeNet{})
	got, err := c.read(s.descriptor(t, now), &s.service, now)
	if err != nil || got.revision != 7 || got.blinded != s.blinded || len(got.inner.Points) != 1 || !got.expires.Equal(now.Add(netdoc.HSLifetime)) {
		t.Fatal(got, err)
	}
	bad := func(name string, doc []byte, want error) {
		t.Helper()
		if _, err := c.read(doc, &s.service, now); !errors.Is(err, want) || fault.KindOf(err) == fault.Unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad("nothing", nil, ErrBadDescriptor)
	bad("another service's", other.descriptor(t, now), ErrBadDescriptor)
	bad("an old one", s.descriptor(t, now.Add(-100*time.Hour)), ErrBadDescriptor)
	flipped := s.descriptor(t, now)
	flipped[len(flipped)/2] ^= 1
	bad("a flipped bit", flipped, ErrBadDescriptor)
	mine, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := s.descriptor(t, now, ident.X25519Key(mine.PublicKey().Bytes()))
	bad("no key", secret, ErrNeedsAuth)
	c.cfg.Keys[s.id] = strangers
	bad("a wrong key", secret, ErrBadAuth)
	c.cfg.Keys[s.id] = mine
	if _, err := c.read(secret, &s.service, now); err != nil {
		t.Error(err)
	}
	s.inner.Points = nil
	bad("no introduction point", s.descriptor(t, now), ErrBadDescriptor)
}

// TestEachDirectoryOnce: all responsible directories are asked, none of them twice,
// and no excluded one; for a newer descriptor, none that was asked lately.
func TestEachDirectoryOnce(t *testing.T) {
	s := newService(t)
	d := madeNet()
	f := &fakeNet{refused: map[ident.RSAID]bool{}}
	c := newClient(t, f)
	dirs := d.HSFetchRing(d.HSTimes(false)).Responsible(s.blinded, 2, 3)
	if len(dirs) != 6 {
		t.Fatal(len(dirs))
	}
	excluded := dirs[2].RSA()
	f.refused[excluded] = true
	if _, err := c.descriptor(t.Context(), c.history(s.id), nil); !errors.Is(err, ErrNoDescriptor) || !errors.Is(err, errNoCircuit) {
		t.Error(err)
	}
	seen := map[ident.RSAID]int{}
	for _, id := range f.to {
		seen[id]++
	}
	if len(f.to) != 5 || len(seen) != 5 || seen[excluded] != 0 {
		t.Errorf("asked %d times, %d directories", len(f.to), len(seen))
	}
	for _, r := range dirs {
		if r.RSA() != excluded && seen[r.RSA()] != 1 {
			t.Error("a responsible directory was not asked")
		}
	}
	stale := &cached{blinded: s.blinded, inner: &s.inner, revision: 1, expires: time.Now().Add(time.Hour)}
	if _, err := c.descriptor(t.Context(), c.history(s.id), stale); !errors.Is(err, ErrNoDescriptor) || len(f.to) != 5 {
		t.Error(err, len(f.to))
	}
	c.keep(stale, 0)
	if got, err := c.descriptor(t.Context(), c.history(s.id), nil); err != nil || got != stale {
		t.Error(got, err)
	}
	c.NewIdentity()
	if c.keep(stale, 0); c.kept(s.blinded, c.epoch) != nil {
		t.Error("a descriptor of before the new identity is kept")
	}
	if _, err := c.descriptor(t.Context(), c.history(s.id), nil); err == nil || len(f.to) != 10 {
		t.Error(err, len(f.to))
	}
}

// TestServiceComesBack: a client that has asked all directories while the service was away
// asks them again soon, less and less often, and from the start when it got there.
func TestServiceComesBack(t *testing.T) {
	s := newService(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{}
		c := newClient(t, f)
		stale := &cached{blinded: s.blinded, inner: &s.inner, revision: 1}
		// rounds counts how often all directories are asked by somebody who asks every second.
		rounds := func(seconds int) int {
			f.to = nil
			for range seconds {
				if _, err := c.descriptor(t.Context(), c.history(s.id), stale); !errors.Is(err, ErrNoDescriptor) {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if len(f.to)%6 != 0 {
				t.Errorf("%d questions", len(f.to))
			}
			return len(f.to) / 6
		}
		if n := rounds(10); n != 3 {
			t.Errorf("asked %d times in ten seconds", n)
		}
		if n := rounds(590); n < 10 || n > 13 {
			t.Errorf("asked %d times in the rest of ten minutes", n)
		}
		c.forgetAsked(s.blinded)
		if n := rounds(10); n != 3 {
			t.Errorf("asked %d times in ten seconds after a success", n)
		}
	})
}

// TestIntroduction: the service can read what is sent, and every message has the
// same length.
func TestIntroduction(t *testing.T) {
	s := newService(t)
	p := &s.inner.Points[0]
	at := linkspec.Target{
		RelayID: ident.RelayID{RSA: ident.RSAID{2}, Ed: ident.Ed25519ID{3}}, Ntor: ident.X25519Key{4},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("8.8.4.4:9001"), netip.MustParseAddrPort("[2001:4860::1]:9001")},
	}
	rend := &rendezvous{circ: endAt{at}, cookie: [20]byte{5}}
	for i, terms := range []circuit.Virtual{{}, {SendmeInc: 31}, {SendmeInc: 31, CGO: true}} {
		var pow *cell.PoW
		if i > 0 {
			pow = &cell.PoW{Nonce: [16]byte{6}, Effort: 7, SeedHead: [4]byte{8}, Solution: [16]byte{9}}
		}
		hs, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.Enc, Auth: p.Auth, Subcredential: s.subcredential})
		if err != nil {
			t.Fatal(err)
		}
		b, err := introduction(hs, p, rend, &terms, pow)
		if err != nil || len(b) != introduceLen {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		m, err := cell.ParseIntroduce(b)
		if err != nil || m.AuthKey != p.Auth || len(m.Exts) != 0 {
			t.Fatal(m, err)
		}
		_, plain, err := handshake.HSNtorOpen(s.enc, p.Auth, [][32]byte{s.subcredential}, m.Header, m.Encrypted)
		if err != nil {
			t.Fatal(err)
		}
		in, err := cell.ParseIntroducePlaintext(plain)
		if err != nil || in.Cookie != rend.cookie || in.Onion != at.Ntor || string(in.Specs) != string(linkspec.Append(nil, at.Specs())) {
			t.Errorf("%+v %v", in, err)
		}
		if body, has := cell.FindExt(in.Exts, cell.ExtCCRequest); has != (terms.SendmeInc != 0) || len(body) != 0 {
			t.Errorf("congestion control: %v", has)
		}
		if body, has := cell.FindExt(in.Exts, cell.ExtSubprotoRequest); has != terms.CGO || has && string(body) != "\x02\x06" {
			t.Errorf("CGO: %v %x", has, body)
		}
		body, has := cell.FindExt(in.Exts, cell.ExtPoW)
		if got, err := cell.ParsePoW(body); has != (pow != nil) || has && (err != nil || got != *pow) {
			t.Errorf("proof of work: %+v, %v", got, err)
		}
	}
}

// endAt is a circuit of which only the end is known.
type endAt struct{ last linkspec.Target }

func (e endAt) Engine() *circuit.Circuit { return nil }
func (e endAt) ID() uint64               { return 0 }
func (e endAt) Last() linkspec.Target    { return e.last }
func (e endAt) Close()                   {}

// TestTerms: congestion control needs the service, the client and a plausible
// increment.
func TestTerms(t *testing.T) {
	f := &fakeNet{cc: true}
	c := newClient(t, f)
	two, err := protover.Parse("FlowCtrl=1-2")
	if err != nil {
		t.Fatal(err)
	}
	desc := &cached{inner: &netdoc.HSInner{FlowControl: two, SendmeInc: 31}}
	if v := c.terms(desc); v.SendmeInc != 31 || v.Path != flow.PathOnion || v.Service {
		t.Errorf("%+v", v)
	}
	if v := c.terms(desc); v.HalfClose {
		t.Error("streams that the service does not offer can be half closed")
	}
	desc.inner.Single, desc.inner.HalfClose = true, true
	if v := c.terms(desc); v.Path != flow.PathExit || !v.HalfClose {
		t.Errorf("%+v", v)
	}
	for name, change := range map[string]func(){
		"far from the consensus's": func() { desc.inner.SendmeInc = 100 },
		"not offered":              func() { desc.inner.SendmeInc, desc.inner.FlowControl = 31, protover.Set{} },
		"off":                      func() { desc.inner.FlowControl, f.cc = two, false },
	} {
		change()
		if v := c.terms(desc); v.SendmeInc != 0 {
			t.Errorf("%s: %+v", name, v)
		}
		f.cc = true
	}
}

// TestTermsCGO: CGO needs the service's word, the client's leave, and congestion control.
func TestTermsCGO(t *testing.T) {
	f := &fakeNet{cc: true}
	c := newClient(t, f)
	c.cfg.CGO = true
	two, err := protover.Parse("FlowCtrl=1-2")
	if err != nil {
		t.Fatal(err)
	}
	inner := &netdoc.HSInner{FlowControl: two, SendmeInc: 31, CGO: true}
	desc := &cached{inner: inner}
	if v := c.terms(desc); !v.CGO || v.SendmeInc != 31 {
		t.Errorf("%+v", v)
	}
	for name, change := range map[string]func(){
		"not offered":              func() { inner.CGO = false },
		"not allowed":              func() { c.cfg.CGO = false },
		"no congestion control":    func() { f.cc = false },
		"none at the service":      func() { inner.FlowControl = protover.Set{} },
		"far from the consensus's": func() { inner.SendmeInc = 100 },
	} {
		change()
		if v := c.terms(desc); v.CGO {
			t.Errorf("%s: %+v", name, v)
		}
		*inner, f.cc, c.cfg.CGO = netdoc.HSInner{FlowControl: two, SendmeInc: 31, CGO: true}, true, true
	}
}

// TestPoints: which introduction points are tried.
func TestPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		f := &fakeNet{refused: map[ident.RSAID]bool{}}
		c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler)})
		defer c.Close()
		p := &s.inner.Points[0]
		desc := &cached{inner: &s.inner}
		usable := func(want int, wantLate bool) {
			t.Helper()
			if got, late := c.history(s.id).usable(desc); len(got) != want || want == 0 && late != wantLate {
				t.Errorf("%d points, late %v", len(got), late)
			}
		}
		usable(1, false)
		for n := range maxUnreachable + 1 {
			usable(1, false)
			if _, err := c.reach(t.Context(), c.history(s.id), p); err != errNoCircuit {
				t.Error(n, err)
			}
		}
		usable(0, false)
		time.Sleep(forgive)
		usable(1, false)
		c.history(s.id).note(p, func(s *pointState) { s.late = true })
		usable(0, true)
		if _, _, _, err := c.meet(t.Context(), c.history(s.id), desc, false); !errors.Is(err, ErrIntroTimeout) || !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
		c.NewIdentity()
		usable(1, false)
		f.refused[ident.RSAID{1}] = true
		if _, _, _, err := c.meet(t.Context(), c.history(s.id), desc, false); !errors.Is(err, ErrIntroduction) || !fault.Is(err, fault.Network) {
			t.Error(err)
		}
		usable(0, false)
		if n := len(c.history(s.id).points); n != 1 {
			t.Error(n)
		}
	})
}

// TestPrivatePoints: nobody can send this client's last relay to an address of its
// own network.
func TestPrivatePoints(t *testing.T) {
	c := newClient(t, &fakeNet{})
	point := func(addrs ...string) *netdoc.HSIntroPoint {
		at := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}}}
		for _, a := range addrs {
			at.Addrs = append(at.Addrs, netip.MustParseAddrPort(a))
		}
		return &netdoc.HSIntroPoint{Specs: at.Specs(), Onion: ident.X25519Key{1}}
	}
	if at, err := c.target(point("8.8.8.8:1")); err != nil || at.Ntor != (ident.X25519Key{1}) {
		t.Error(at, err)
	}
	for _, p := range []*netdoc.HSIntroPoint{point("127.0.0.1:1"), point("10.0.0.1:9001"), point("8.8.8.8:1", "[fe80::1]:1")} {
		if _, err := c.target(p); !fault.Is(err, fault.Refused) {
			t.Error(err)
		}
	}
	if _, err := c.target(point()); !fault.Is(err, fault.Protocol) {
		t.Error(err)
	}
	c.cfg.Private = true
	if _, err := c.target(point("127.0.0.1:1")); err != nil {
		t.Error(err)
	}
}

// TestRendezvousStates: RENDEZVOUS2 counts once, and only while an introduction is
// under way.
func TestRendezvousStates(t *testing.T) {
	start := func() *rendezvous { return &rendezvous{point: new(circuit.Hop), met: make(chan *circuit.Hop, 1)} }
	take := func(r *rendezvous) error {
		return r.take(cell.RelayMsg{Cmd: cell.RelayRendezvous2, Data: make([]byte, 64)})
	}
	hs := func() *handshake.HSClientState {
		s := newService(t)
		st, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: s.enc.Public()})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	r := start()
	if err := take(r); !fault.Is(err, fault.Protocol) {
		t.Errorf("while asked: %v", err)
	}
	if err := r.arm(hs(), circuit.Virtual{}); !fault.Is(err, fault.Local) {
		t.Errorf("an introduction before the point has answered: %v", err)
	}
	r.state = established
	if err := take(r); !fault.Is(err, fault.Protocol) {
		t.Errorf("while established: %v", err)
	}
	if err := r.arm(hs(), circuit.Virtual{}); err != nil {
		t.Error(err)
	}
	if err := r.arm(hs(), circuit.Virtual{}); err == nil {
		t.Error("two introductions at a time")
	}
	if !r.disarm() || r.disarm() {
		t.Error("an introduction is not taken back once")
	}
	if err := take(r); !fault.Is(err, fault.Protocol) {
		t.Errorf("after it was taken back: %v", err)
	}
	if err := r.arm(hs(), circuit.Virtual{}); err != nil {
		t.Error(err)
	}
	if err := take(r); !fault.Is(err, fault.Protocol) || r.state != failed {
		t.Errorf("a forged answer: %v, state %d", err, r.state)
	}
	if err := take(r); !fault.Is(err, fault.Protocol) || r.disarm() || r.arm(hs(), circuit.Virtual{}) == nil {
		t.Errorf("after a forged answer: %v", err)
	}
}
