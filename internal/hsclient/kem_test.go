package hsclient

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestKEMPolicies: which services are refused, and which get a ciphertext.
func TestKEMPolicies(t *testing.T) {
	s := newService(t)
	key, err := handshake.NewHSKEMKey(rand.Reader, s.blinded)
	if err != nil {
		t.Fatal(err)
	}
	with := &cached{inner: &netdoc.HSInner{KEM: key.Public()}, blinded: s.blinded}
	without := &cached{inner: &netdoc.HSInner{}, blinded: s.blinded}
	c := newClient(t, &fakeNet{})
	for policy, want := range map[circuit.PQPolicy]struct{ used, refused bool }{
		circuit.PQOff: {}, circuit.PQPrefer: {used: true}, circuit.PQRequireOne: {used: true}, circuit.PQRequireAll: {true, true},
	} {
		c.cfg.PQ = policy
		if err := c.protects(with); err != nil {
			t.Errorf("policy %v: %v", policy, err)
		}
		if err := c.protects(without); (err != nil) != want.refused || err != nil && !(errors.Is(err, ErrClassical) && fault.Is(err, fault.Refused)) {
			t.Errorf("policy %v, a service without a key: %v", policy, err)
		}
		if kem, err := c.encapsulate(with); err != nil || (kem != nil) != want.used {
			t.Errorf("policy %v: %v %v", policy, kem, err)
		} else if kem != nil && kem.Announcement().ID != key.ID() {
			t.Error("the announcement names another key")
		}
		if kem, err := c.encapsulate(without); err != nil || kem != nil {
			t.Errorf("policy %v, a service without a key: %v %v", policy, kem, err)
		}
	}
}

// TestKEMRequiredBeforeAnything: nothing is sent to a service's introduction points if
// its descriptor does not have what is demanded.
func TestKEMRequiredBeforeAnything(t *testing.T) {
	s := newService(t)
	f := &fakeNet{}
	c := newClient(t, f)
	c.cfg.PQ = circuit.PQRequireAll
	c.keep(&cached{inner: &s.inner, blinded: s.blinded, expires: time.Now().Add(time.Hour)}, 0)
	if _, _, err := c.connect(t.Context(), c.history(s.id), false); !errors.Is(err, ErrClassical) || len(f.to) != 0 {
		t.Errorf("%v, %d circuits", err, len(f.to))
	}
}

// TestReadKEM: a descriptor whose key FIPS 203 forbids is not valid.
func TestReadKEM(t *testing.T) {
	s := newService(t)
	c := newClient(t, &fakeNet{})
	now := time.Now()
	s.inner.KEM = make([]byte, netdoc.HSKEMLen)
	if got, err := c.read(s.descriptor(t, now), &s.service, now); err != nil || got.inner.KEM == nil {
		t.Error(err)
	}
	s.inner.KEM[0], s.inner.KEM[1] = 0xff, 0xff
	if _, err := c.read(s.descriptor(t, now), &s.service, now); !errors.Is(err, ErrBadDescriptor) {
		t.Error(err)
	}
}

// TestKEMIntroduction: the announcement fits, and the message has the longer length.
func TestKEMIntroduction(t *testing.T) {
	s := newService(t)
	p := &s.inner.Points[0]
	key, err := handshake.NewHSKEMKey(rand.Reader, s.blinded)
	if err != nil {
		t.Fatal(err)
	}
	kem, err := handshake.HSKEMEncapsulate(rand.Reader, s.blinded, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	at := linkspec.Target{
		RelayID: ident.RelayID{RSA: ident.RSAID{2}, Ed: ident.Ed25519ID{3}}, Ntor: ident.X25519Key{4},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("8.8.4.4:9001"), netip.MustParseAddrPort("[2001:4860::1]:9001")},
	}
	hs, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.Enc, Auth: p.Auth, Subcredential: s.subcredential})
	if err != nil {
		t.Fatal(err)
	}
	b, err := introduction(hs, p, &rendCircuit{circ: endAt{at}}, &circuit.VirtualHop{SendmeInc: 31, CGO: true, KEM: kem}, &cell.PoW{Effort: 1})
	if err != nil || len(b) != introduceLong {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	m, err := cell.ParseIntroduce(b)
	if err != nil || len(m.Exts) != 0 {
		t.Fatal(m, err)
	}
	_, plain, err := handshake.HSNtorOpen(s.enc, p.Auth, [][32]byte{s.subcredential}, m.Header, m.Encrypted)
	if err != nil {
		t.Fatal(err)
	}
	in, err := cell.ParseIntroducePlaintext(plain)
	if err != nil {
		t.Fatal(err)
	}
	body, ok := cell.FindExt(in.Exts, cell.ExtOnionKEM)
	if an, err := cell.ParseOnionKEM(body); !ok || err != nil || an != kem.Announcement() {
		t.Errorf("%+v %v", an, err)
	}
	if _, ok := cell.FindExt(in.Exts, cell.ExtPoW); !ok {
		t.Error("no proof of work beside it")
	}
}

// TestKEMTakenBack: the secret of an introduction that was refused, or whose
// rendezvous is given up, is gone.
func TestKEMTakenBack(t *testing.T) {
	s := newService(t)
	key, err := handshake.NewHSKEMKey(rand.Reader, s.blinded)
	if err != nil {
		t.Fatal(err)
	}
	st, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: s.enc.Public()})
	if err != nil {
		t.Fatal(err)
	}
	ss, _, err := handshake.HSNtorOpen(s.enc, ident.Ed25519ID{}, [][32]byte{{}}, nil, st.Introduce(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, hs, err := ss.Reply(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		end  func(*rendCircuit)
		gone bool
	}{
		"under way":  {func(*rendCircuit) {}, false},
		"taken back": {func(r *rendCircuit) { r.disarm() }, true},
		"given up":   {(*rendCircuit).close, true},
	} {
		kem, err := handshake.HSKEMEncapsulate(rand.Reader, s.blinded, key.Public())
		if err != nil {
			t.Fatal(err)
		}
		r := &rendCircuit{circ: endAt{}, point: new(circuit.Hop), state: rendEstablished}
		if err := r.arm(nil, circuit.VirtualHop{KEM: kem}); err != nil {
			t.Fatal(err)
		}
		c.end(r)
		if _, _, _, err := kem.Finish(hs); fault.Is(err, fault.Local) != c.gone || err != nil != c.gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}
