package netdoc

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

func hs32(t *testing.T, s string) [32]byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(b)
}

func hsFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/arti/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHSDescriptorOfCTor opens descriptors that C tor made.
func TestHSDescriptorOfCTor(t *testing.T) {
	now := time.Date(2023, 1, 23, 15, 0, 0, 0, time.UTC)
	d, err := ParseHSDescriptor(hsFile(t, "hsdesc1.txt"), now)
	if err != nil {
		t.Fatal(err)
	}
	if want := hs32(t, "43cc0d62fc6252f578705ca645a46109e265290343b1137e90189744b20b3f2d"); d.Blinded != want || d.Lifetime != HSLifetime {
		t.Errorf("blinded key %x, lifetime %v", d.Blinded, d.Lifetime)
	}
	sub := hs32(t, "78210A0D2C72BB7A0CAF606BCD938B9A3696894FDDDBC3B87D424753A7E3DF37")
	h, err := d.Open(sub, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Points) == 0 || len(h.Points[0].Specs) == 0 || h.Points[0].Auth.IsZero() {
		t.Errorf("introduction points: %+v", h.Points)
	}
	sub[0] ^= 1
	if _, err := d.Open(sub, nil); err == nil || errors.Is(err, ErrHSNeedsAuth) {
		t.Errorf("with another subcredential: %v", err)
	}
	if _, err := ParseHSDescriptor(d.Text, now.Add(80*time.Hour)); !errors.Is(err, cert.ErrExpired) {
		t.Errorf("80 hours later: %v", err)
	}
}

func TestHSDescriptorOfCTorForAuthorizedClients(t *testing.T) {
	at := time.Date(2023, 2, 9, 12, 0, 0, 0, time.UTC)
	d, err := ParseHSDescriptor(hsFile(t, "hsdesc2.txt"), at)
	if err != nil {
		t.Fatal(err)
	}
	id := ident.Ed25519ID(hs32(t, "781D978CE6CE9CAA8BCA306F53E82D2C993E5C91346625F1C151DCFC56D753D3"))
	blinded, err := hscrypto.Blind(id, hscrypto.PeriodAt(at, hscrypto.DefaultPeriod, 12*time.Hour))
	if err != nil || blinded != d.Blinded {
		t.Fatalf("blinded key %v, %v; the descriptor has %v", blinded, err, d.Blinded)
	}
	sub := hscrypto.Subcredential(id, blinded)
	if sub != hs32(t, "24A133E905102BDA9A6AFE57F901366A1B8281865A91F1FE0853E4B50CC8B070") {
		t.Errorf("subcredential %x", sub)
	}
	if _, err := d.Open(sub, nil); !errors.Is(err, ErrHSNeedsAuth) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := d.Open(sub, newClient(t)); !errors.Is(err, ErrHSBadAuth) {
		t.Errorf("with another key: %v", err)
	}
	secret := hs32(t, "90F2D60F917F2423F0989CE9979639435A5B01CF7AB3E0A1B900BEB892BAE443")
	client, err := ecdh.X25519().NewPrivateKey(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	if h, err := d.Open(sub, client); err != nil || len(h.Points) == 0 {
		t.Errorf("with the key: %+v, %v", h, err)
	}
}

func newClient(t testing.TB) *ecdh.PrivateKey {
	t.Helper()
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// hsService makes keys of a period, and a layer with n introduction points.
func hsService(t testing.TB, n int) (*HSKeys, *HSInner) {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := [64]byte(cert.Expand(k).Bytes())
	p := hscrypto.Period{Num: 19000, Minutes: 1440}
	b, err := hscrypto.BlindSecret(secret, p)
	if err != nil {
		t.Fatal(err)
	}
	blinded, err := cert.NewBlinded(b[:])
	if err != nil {
		t.Fatal(err)
	}
	if want, err := hscrypto.Blind(cert.IdentityOf(k), p); err != nil || want != blinded.Public() {
		t.Fatalf("public half %v, %v; want %v", blinded.Public(), err, want)
	}
	flow, err := protover.Parse("FlowCtrl=1-2")
	if err != nil {
		t.Fatal(err)
	}
	h := &HSInner{Single: true, FlowControl: flow, SendmeInc: 31, HalfClose: true, PoW: &HSPoW{Effort: 7, Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	for i := range n {
		h.Points = append(h.Points, HSIntroPoint{
			Specs: []linkspec.Spec{{Type: linkspec.TypeIPv4, Body: []byte{192, 0, 2, byte(i), 0, 9}}, {Type: 77, Body: []byte("unknown")}},
			Onion: ident.X25519Key{byte(i), 1}, Auth: ident.Ed25519ID{byte(i), 2}, Enc: ident.X25519Key(newClient(t).PublicKey().Bytes()),
		})
	}
	return &HSKeys{Blinded: blinded, Subcredential: hscrypto.Subcredential(cert.IdentityOf(k), blinded.Public())}, h
}

func TestHSDescriptorThereAndBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	me, other := newClient(t), newClient(t)
	for _, c := range []struct {
		points, clients, lines int
	}{{0, 0, 16}, {3, 0, 16}, {3, 1, 16}, {20, 16, 16}, {6, 17, 32}} {
		keys, inner := hsService(t, c.points)
		for i := range c.clients {
			k := newClient(t)
			if i == c.clients/2 {
				k = me
			}
			keys.Clients = append(keys.Clients, ident.X25519Key(k.PublicKey().Bytes()))
		}
		d, err := EncodeHSDescriptor(rand.Reader, keys, 1<<63+5, inner, now)
		if err != nil {
			t.Fatal(err)
		}
		if d.Revision != 1<<63+5 || d.Blinded != keys.Blinded.Public() || len(d.Text) > MaxHSDescriptor {
			t.Errorf("%+v: revision %d, blinded key %v, %d bytes", c, d.Revision, d.Blinded, len(d.Text))
		}
		got, err := d.Open(keys.Subcredential, me)
		if err != nil || !reflect.DeepEqual(got, inner) {
			t.Errorf("%+v: %+v, %v; want %+v", c, got, err, inner)
		}
		switch _, err := d.Open(keys.Subcredential, other); {
		case c.clients == 0 && err != nil:
			t.Errorf("%+v: with a key that is not needed: %v", c, err)
		case c.clients > 0 && !errors.Is(err, ErrHSBadAuth):
			t.Errorf("%+v: with another key: %v", c, err)
		}
		l := hsLayer{d.Blinded, keys.Subcredential, d.Revision}
		plain, err := l.open(hsOuterConstant, nil, d.superencrypted)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(plain, []byte("\nauth-client ")); len(plain)%hsPadTo != 0 || n != c.lines {
			t.Errorf("%+v: the first layer has %d bytes and %d clients' lines, not %d", c, len(plain), n, c.lines)
		}
	}
}

// TestHSDescriptorRefused changes one thing at a time.
func TestHSDescriptorRefused(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	keys, inner := hsService(t, 1)
	d, err := EncodeHSDescriptor(rand.Reader, keys, 5, inner, now)
	if err != nil {
		t.Fatal(err)
	}
	text := string(d.Text)
	for _, c := range []struct{ old, new, want string }{
		{"hs-descriptor 3", "hs-descriptor 2", `line 1: hs-descriptor: version "2"`},
		{"descriptor-lifetime 180", "descriptor-lifetime 721", "line 2: descriptor-lifetime: minutes 721 is above 720"},
		{"revision-counter 5", "revision-counter 6", "signature: the signature is wrong"},
		{"revision-counter 5", "revision-counter 18446744073709551616", "not a 64-bit number"},
		{"revision-counter 5\n", "", "signature"},
		{"signature ", "signature A", "signature"},
		{"revision-counter 5", "revision-counter 5\nrevision-counter 5", "twice"},
		{"hs-descriptor 3\n", "", "must come first"},
	} {
		if _, err := ParseHSDescriptor([]byte(strings.Replace(text, c.old, c.new, 1)), now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := ParseHSDescriptor([]byte(text+"more 1\n"), now); err == nil {
		t.Error("an item after the signature was taken")
	}
	for n := range len(text) {
		if _, err := ParseHSDescriptor([]byte(text[:n]), now); err == nil {
			t.Fatalf("the first %d bytes were taken", n)
		}
	}
}

// TestHSInnerRefused checks what a hostile service can write into the inner
// layer: introduction points that cannot be used are omitted, and others stay.
func TestHSInnerRefused(t *testing.T) {
	_, inner := hsService(t, 2)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := inner.encode(signing, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := cert.IdentityOf(signing)
	if h, err := parseHSInner(b, id); err != nil || len(h.Points) != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	text := string(b)
	first := text[strings.Index(text, "introduction-point"):strings.LastIndex(text, "introduction-point")]
	line := func(keyword string) string {
		i := strings.Index(first, keyword)
		return first[i : i+strings.IndexByte(first[i:], '\n')+1]
	}
	second := inner.Points[1]
	for name, changed := range map[string]string{
		"no onion key":       strings.Replace(first, line("onion-key"), "", 1),
		"two onion keys":     strings.Replace(first, line("onion-key"), line("onion-key")+line("onion-key"), 1),
		"other enc-key":      strings.Replace(first, line("enc-key "), "enc-key ntor "+strings.Repeat("A", 43)+"\n", 1),
		"broken specifiers":  strings.Replace(first, line("introduction-point"), "introduction-point ////\n", 1),
		"wrong certificate":  strings.Replace(first, "auth-key", "enc-key-cert", 1),
		"more than 16 specs": strings.Replace(first, line("introduction-point"), "introduction-point "+strings.Repeat("EQ", 1)+"=="+"\n", 1),
	} {
		h, err := parseHSInner([]byte(strings.Replace(text, first, changed, 1)), id)
		if err != nil || len(h.Points) != 1 || h.Points[0].Auth != second.Auth {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"create2-formats 2", "create2-formats 1", "ntor"},
		{"create2-formats 2\n", "", "must come first"},
		{"flow-control 1-2 31", "flow-control 1-2 256", "above 255"},
		{"flow-control 1-2 31", "flow-control x 31", "flow-control"},
		{"pow-params v1", "pow-params v1 x", "seed"},
		{text[strings.Index(text, "introduction-point"):], strings.Repeat(first, 21), "more than 20"},
	} {
		if _, err := parseHSInner([]byte(strings.Replace(text, c.old, c.new, 1)), id); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %q", c.new, err, c.want)
		}
	}
	if h, err := parseHSInner([]byte(strings.Replace(text, "pow-params v1", "pow-params v9", 1)), id); err != nil || h.PoW != nil {
		t.Errorf("another kind of proof of work: %+v, %v", h, err)
	}
}

// TestHSInnerOfArti reads the layer from Arti's tests.
func TestHSInnerOfArti(t *testing.T) {
	text := hsFile(t, "hsdesc-inner-pow-v1.txt")
	h, err := parseHSInner(text, ident.Ed25519ID{})
	if err != nil || h.PoW == nil || h.PoW.Expires.IsZero() {
		t.Fatalf("%+v, %v", h, err)
	}
}

func FuzzHSDescriptor(f *testing.F) {
	f.Add(hsFile(f, "hsdesc1.txt"))
	f.Add(hsFile(f, "hsdesc2.txt"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseHSDescriptor(b, time.Date(2023, 1, 23, 15, 0, 0, 0, time.UTC))
	})
}

func FuzzHSLayers(f *testing.F) {
	_, inner := hsService(f, 2)
	inner.KEM = make([]byte, HSKEMLen)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	b, err := inner.encode(signing, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(hsFile(f, "hsdesc-inner-pow-v1.txt"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHSInner(b, cert.IdentityOf(signing)); err == nil {
			if _, err := h.encode(signing, time.Now()); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
		}
		_, _ = parseHSMiddle(bytes.Clone(b))
	})
}

// TestHSCookieCost: a descriptor with as many auth-client lines as fit costs an
// authorized client no more than one with a few.
func TestHSCookieCost(t *testing.T) {
	client := newClient(t)
	l := &hsLayer{}
	cost := func(lines int) float64 {
		m := &hsMiddle{ephemeral: ident.X25519Key(newClient(t).PublicKey().Bytes()), clients: make([]hsClientLine, lines)}
		return testing.AllocsPerRun(10, func() { // on average: other goroutines allocate too
			if _, err := l.cookie(m, client); !errors.Is(err, ErrHSBadAuth) {
				t.Error(err)
			}
		})
	}
	if few, many := cost(1), cost(500); many > few+2 {
		t.Errorf("%v allocations for 500 lines, %v for one", many, few)
	}
}
