package hsservice

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
)

func newKEM(t *testing.T) *handshake.HSKEMKey {
	t.Helper()
	k, err := handshake.NewHSKEMKey(rand.Reader, ident.Ed25519ID{1})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// erased reports whether a key's secret is gone.
func erased(t *testing.T, k *handshake.HSKEMKey) bool {
	t.Helper()
	cl, err := handshake.HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{1}, k.Public())
	if err != nil {
		t.Fatal(err)
	}
	ct, hs := ciphertext(t, cl)
	_, _, err = k.Finish(hs, cl.Announcement().Hash, ct)
	return fault.Is(err, fault.Closed)
}

// ciphertext finishes a client's half with the keys of some hs-ntor.
func ciphertext(t *testing.T, cl *handshake.HSKEMClient) ([]byte, handshake.KeyStream) {
	t.Helper()
	b, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	st, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: b.Public()})
	if err != nil {
		t.Fatal(err)
	}
	ss, _, err := handshake.HSNtorOpen(b, ident.Ed25519ID{}, [][32]byte{{}}, nil, st.Introduce(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	reply, hs, err := ss.Reply(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	chs, err := st.Finish(reply)
	if err != nil {
		t.Fatal(err)
	}
	ct, _, _, err := cl.Finish(chs)
	if err != nil {
		t.Fatal(err)
	}
	return ct, hs
}

// TestKEMKeys: a key lives as long as a client can have its descriptor, and is erased
// then; there is a bound.
func TestKEMKeys(t *testing.T) {
	var k kemKeys
	now := time.Now()
	a, b := newKEM(t), newKEM(t)
	k.keep(a, now)
	k.keep(b, now.Add(time.Minute))
	k.keep(a, now.Add(time.Hour)) // the same text again
	if k.forget(now.Add(kemLife)); k.find(a.ID()) != a || k.find(b.ID()) != b {
		t.Error("a key is forgotten too early")
	}
	if k.forget(now.Add(time.Minute + kemLife)); k.find(b.ID()) != nil || k.find(a.ID()) != a || !erased(t, b) || erased(t, a) {
		t.Error("the older key must be gone, and the younger not")
	}
	if k.forget(now.Add(time.Hour + kemLife)); len(k.list) != 0 || !erased(t, a) {
		t.Error("a key is kept too long")
	}
	first := newKEM(t)
	k.keep(first, now)
	for range maxKEMKeys {
		k.keep(b, now)
		b = newKEM(t)
	}
	if len(k.list) != maxKEMKeys || !erased(t, first) {
		t.Errorf("%d keys are kept", len(k.list))
	}
	last := k.list[len(k.list)-1].key
	if k.wipe(0); len(k.list) != 0 || !erased(t, last) {
		t.Error("keys are left at the end")
	}
}

// TestMakeKEM: each descriptor has a key of its own, which is kept from its upload on;
// a service with PQOff has none.
func TestMakeKEM(t *testing.T) {
	s, x := made(t)
	ids := map[[cell.OnionKEMIDLen]byte]bool{}
	for range 3 {
		if err := s.makeLocked(x, nil, [32]byte{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		inner, err := x.doc.Open(x.keys.Subcredential, nil)
		if err != nil || !bytes.Equal(inner.KEM, x.kem.Public()) || handshake.CheckHSKEM(inner.KEM) != nil {
			t.Fatal(inner, err)
		}
		ids[x.kem.ID()] = true
	}
	if len(ids) != 3 {
		t.Error("two descriptors have the same key")
	}
	s.cfg.PQ = circuit.PQOff
	if err := s.makeLocked(x, nil, [32]byte{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if inner, err := x.doc.Open(x.keys.Subcredential, nil); err != nil || inner.KEM != nil || x.kem != nil {
		t.Error("a service without post-quantum protection has a key", err)
	}
}

// TestKEMIntroductions: which introductions a service takes.
func TestKEMIntroductions(t *testing.T) {
	kem := newKEM(t)
	cl, err := handshake.HSKEMEncapsulate(rand.Reader, ident.Ed25519ID{1}, kem.Public())
	if err != nil {
		t.Fatal(err)
	}
	an := cl.Announcement()
	with := func(change func(*cell.OnionKEM)) []cell.Ext {
		m := an
		change(&m)
		return []cell.Ext{m.Ext()}
	}
	good := with(func(*cell.OnionKEM) {})
	long := []cell.Ext{{Type: cell.ExtOnionKEM, Body: append(bytes.Clone(good[0].Body), 0)}}
	for name, c := range map[string]struct {
		exts []cell.Ext
		pq   circuit.PQPolicy
		want string
	}{
		"with a ciphertext":              {good, circuit.PQPrefer, ""},
		"with one, as is demanded":       {good, circuit.PQRequireAll, ""},
		"without":                        {nil, circuit.PQPrefer, ""},
		"without, but one is demanded":   {nil, circuit.PQRequireAll, "does not use"},
		"another key":                    {with(func(m *cell.OnionKEM) { m.ID[7] ^= 1 }), circuit.PQPrefer, "does not have"},
		"another set":                    {with(func(m *cell.OnionKEM) { m.Set = 3 }), circuit.PQPrefer, "parameter set 3"},
		"cut off":                        {[]cell.Ext{{Type: cell.ExtOnionKEM, Body: good[0].Body[:40]}}, circuit.PQPrefer, "32 bytes wanted, 31 left"},
		"too long":                       {long, circuit.PQPrefer, "left over"},
		"two, of which the first counts": {append(with(func(m *cell.OnionKEM) { m.ID[0] ^= 1 }), good...), circuit.PQPrefer, "does not have"},
	} {
		s, p := hosted(t, nowhere{})
		s.cfg.PQ = c.pq
		s.mu.Lock()
		s.kems.keep(kem, time.Now())
		s.mu.Unlock()
		a := ask()
		a.exts = c.exts
		m, err := s.decrypt(p, a.message(t, p), time.Now())
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (m.promise != nil) != (c.exts != nil) || m.promise != nil && (m.promise.Key != kem || m.promise.Hash != an.Hash) {
			t.Errorf("%s: %+v", name, m.promise)
		}
		s.mu.Lock()
		s.kems.list = nil // the key is for all cases
		s.mu.Unlock()
	}
}

// A service whose descriptors, or whose masters' descriptors, have no ML-KEM key cannot
// demand that clients use one.
func TestDemandWithoutKey(t *testing.T) {
	other := []ident.Ed25519ID{key(t).ID()}
	for name, cfg := range map[string]Config{"fleet": {Fleet: true}, "frontend": {Backends: other}, "backend": {Masters: other}} {
		cfg.Key, cfg.Network, cfg.PQ = key(t), nowhere{}, circuit.PQRequireAll
		if s, err := New(cfg); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
}
