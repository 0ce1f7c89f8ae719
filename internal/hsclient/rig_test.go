package hsclient

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

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
func (f *fakeNet) Internal(context.Context, bool) (OwnedCircuit, error) { return nil, errNoCircuit }
func (f *fakeNet) To(_ context.Context, t linkspec.Target, _ []linkspec.Spec) (OwnedCircuit, error) {
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
	c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler), Keys: func() Keys { return nil }})
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

// endAt is a circuit of which only the end is known.
type endAt struct{ last linkspec.Target }

func (e endAt) Engine() *circuit.Circuit { return nil }
func (e endAt) ID() uint64               { return 0 }
func (e endAt) Last() linkspec.Target    { return e.last }
func (e endAt) Close()                   {}
