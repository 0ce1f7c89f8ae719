package hsclient

import (
	"crypto/rand"
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// TestIntroduction: the service can read what is sent, and every message has the
// length of C tor's (310 bytes, seen at an introduction point of C tor 0.4.9.11).
func TestIntroduction(t *testing.T) {
	s := newService(t)
	p := &s.inner.Points[0]
	at := linkspec.Target{
		RelayID: ident.RelayID{RSA: ident.RSAID{2}, Ed: ident.Ed25519ID{3}}, Ntor: ident.X25519Key{4},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("8.8.4.4:9001"), netip.MustParseAddrPort("[2001:4860::1]:9001")},
	}
	rend := &rendCircuit{circ: endAt{at}, cookie: [20]byte{5}}
	for i, terms := range []circuit.VirtualHop{{}, {SendmeInc: 31}, {SendmeInc: 31, CGO: true}} {
		var pow *cell.PoW
		if i > 0 {
			pow = &cell.PoW{Nonce: [16]byte{6}, Effort: 7, SeedHead: [4]byte{8}, Solution: [16]byte{9}}
		}
		hs, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.Enc, Auth: p.Auth, Subcredential: s.subcredential})
		if err != nil {
			t.Fatal(err)
		}
		b, err := introduction(hs, p, rend, &terms, pow)
		if err != nil || len(b) != 310 {
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

// TestRendezvousStates: RENDEZVOUS2 counts once, and only while an introduction is
// under way.
func TestRendezvousStates(t *testing.T) {
	start := func() *rendCircuit { return &rendCircuit{point: new(circuit.Hop), joined: make(chan *circuit.Hop, 1)} }
	take := func(r *rendCircuit) error {
		return r.join(cell.RelayMsg{Cmd: cell.RelayRendezvous2, Data: make([]byte, 64)})
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
	if err := r.arm(hs(), circuit.VirtualHop{}); !fault.Is(err, fault.Local) {
		t.Errorf("an introduction before the point has answered: %v", err)
	}
	r.state = rendEstablished
	if err := take(r); !fault.Is(err, fault.Protocol) {
		t.Errorf("while established: %v", err)
	}
	if err := r.arm(hs(), circuit.VirtualHop{}); err != nil {
		t.Error(err)
	}
	if err := r.arm(hs(), circuit.VirtualHop{}); err == nil {
		t.Error("two introductions at a time")
	}
	if !r.disarm() || r.disarm() {
		t.Error("an introduction is not taken back once")
	}
	if err := take(r); !fault.Is(err, fault.Protocol) {
		t.Errorf("after it was taken back: %v", err)
	}
	if err := r.arm(hs(), circuit.VirtualHop{}); err != nil {
		t.Error(err)
	}
	if err := take(r); !fault.Is(err, fault.Protocol) || r.state != rendFailed {
		t.Errorf("a forged answer: %v, state %d", err, r.state)
	}
	if err := take(r); !fault.Is(err, fault.Protocol) || r.disarm() || r.arm(hs(), circuit.VirtualHop{}) == nil {
		t.Errorf("after a forged answer: %v", err)
	}
}
