package hscrypto

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"github.com/chivenet/chive/internal/ident"
)

// hexBytes is a string of hexadecimal digits in a file of vectors.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

// vectors are from C tor; the file names the source.
func vectors(t *testing.T) (v struct {
	Blind []struct {
		Secret, Public, Factor hexBytes
		BlindedSecret          hexBytes `json:"blinded_secret"`
		BlindedPublic          hexBytes `json:"blinded_public"`
	}
	CounterKey hexBytes `json:"counter_key"`
	Counters   [][2]uint64
	AddressKey hexBytes `json:"address_key"`
	Address    string
	NodeIndex  hexBytes `json:"node_index"`
	StoreIndex hexBytes `json:"store_index"`
}) {
	t.Helper()
	b, err := os.ReadFile("testdata/ctor.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVectorsBlind(t *testing.T) {
	v := vectors(t)
	if len(v.Blind) != 10 {
		t.Fatalf("%d vectors, not 10", len(v.Blind))
	}
	for i, c := range v.Blind {
		public, err := blind(ident.Ed25519ID(c.Public), [32]byte(c.Factor))
		if err != nil || !bytes.Equal(public[:], c.BlindedPublic) {
			t.Errorf("%d: public key %x, %v; want %x", i, public, err, []byte(c.BlindedPublic))
		}
		secret, err := blindSecret([64]byte(c.Secret), [32]byte(c.Factor))
		if err != nil || !bytes.Equal(secret[:], c.BlindedSecret) {
			t.Errorf("%d: secret key %x, %v; want %x", i, secret, err, []byte(c.BlindedSecret))
		}
	}
}

// TestVectorBlindPeriod uses a vector of Arti (tor-hscrypto, pk.rs): the factor
// depends on the key and the period.
func TestVectorBlindPeriod(t *testing.T) {
	id := ident.Ed25519ID(unhex(t, "833990B085C1A688C1D4C8B1F6B56AFAF5A2ECA674449E1D704F83765CCB7BC6"))
	got, err := Blind(id, Period{Num: 1234, Minutes: 1440})
	if want := unhex(t, "3A50BF210E8F9EE955AE0014F7A6917FB65EBF098A86305ABB508D1A7291B6D5"); err != nil || !bytes.Equal(got[:], want) {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	if sub, want := Subcredential(id, got), unhex(t, "635D55907816E8D76398A675A50B1C2F3E36B42A5CA77BA3A0441285161AE07D"); !bytes.Equal(sub[:], want) {
		t.Errorf("subcredential %x, want %x", sub, want)
	}
}

// TestSecretFitsPublic checks that both halves of a period's key match.
func TestSecretFitsPublic(t *testing.T) {
	for _, c := range vectors(t).Blind {
		p := Period{Num: 17, Minutes: 30}
		public, err := Blind(ident.Ed25519ID(c.Public), p)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := BlindSecret([64]byte(c.Secret), p)
		if err != nil {
			t.Fatal(err)
		}
		s, err := edwards25519.NewScalar().SetCanonicalBytes(secret[:32])
		if err != nil {
			t.Fatal(err)
		}
		if got := new(edwards25519.Point).ScalarBaseMult(s).Bytes(); !bytes.Equal(got, public[:]) {
			t.Errorf("public half %x, want %x", got, public)
		}
	}
}

func TestVectorsCounter(t *testing.T) {
	v := vectors(t)
	c, err := newCounter([32]byte(v.CounterKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range v.Counters {
		if got, err := c.At(int(x[0])); err != nil || got != x[1] {
			t.Errorf("At(%d) = %d, %v; want %d", x[0], got, err, x[1])
		}
	}
	for _, s := range []int{-1, 0, maxAge + 1} {
		if got, err := c.At(s); err == nil {
			t.Errorf("At(%d) = %d", s, got)
		}
	}
	if last, err := c.At(maxAge); err != nil || last < v.Counters[0][1] {
		t.Errorf("At(%d) = %d, %v", maxAge, last, err)
	}
}

func TestVectorsRing(t *testing.T) {
	v := vectors(t)
	p := Period{Num: 42, Minutes: 1440}
	key, srv := ident.Ed25519ID(bytes.Repeat([]byte{0x42}, 32)), [32]byte(bytes.Repeat([]byte{0x43}, 32))
	if got := NodeIndex(key, srv, p); !bytes.Equal(got[:], v.NodeIndex) {
		t.Errorf("NodeIndex %x, want %x", got, []byte(v.NodeIndex))
	}
	if got := StoreIndex(key, 1, p); !bytes.Equal(got[:], v.StoreIndex) {
		t.Errorf("StoreIndex %x, want %x", got, []byte(v.StoreIndex))
	}
}

func TestAddress(t *testing.T) {
	v := vectors(t)
	key := ident.Ed25519ID(v.AddressKey)
	if got := Address(key); got != v.Address {
		t.Errorf("Address = %s, want %s", got, v.Address)
	}
	for _, s := range []string{v.Address, strings.ToUpper(v.Address), "www." + v.Address, "a.b." + v.Address + "."} {
		if got, err := ParseAddress(s); err != nil || got != key {
			t.Errorf("ParseAddress(%q) = %x, %v", s, got, err)
		}
		if !IsAddress(s) {
			t.Errorf("IsAddress(%q) is false", s)
		}
	}
	small := ident.Ed25519ID{} // y = 0: of order 4
	mixed := torsion(t, key)
	for _, c := range []struct{ address, want string }{
		{"example.com", "does not end in .onion"},
		{".onion", "0 characters"},
		{"expyuzz4wqqyqhjn.onion", "16 characters"},
		{"1" + v.Address[1:], "not base32"},
		{"\n" + v.Address[1:], "not base32"},
		{"\r\n\r\n\r\n\r\n" + v.Address[8:], "not base32"},
		{"\u017f" + v.Address[2:], "not base32"}, // whose upper case is S
		{"a" + v.Address[1:], "checksum"},
		{strings.Replace(v.Address, "d.onion", "c.onion", 1), "version 2"},
		{Address(small), "prime order"},
		{Address(mixed), "prime order"},
	} {
		if _, err := ParseAddress(c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseAddress(%q): %v, want %q", c.address, err, c.want)
		}
	}
	if _, err := Blind(mixed, Period{1, 1440}); err == nil {
		t.Error("a key with a part of small order was blinded")
	}
	for _, s := range []string{"onion", "onion.", "x.ONION", "x.onion.", "x.onion..", "x.onion....", "onion.."} {
		if !IsAddress(s) {
			t.Errorf("IsAddress(%q) is false", s)
		}
	}
	for _, s := range []string{"", "onion.com", "xonion", "example.com"} {
		if IsAddress(s) {
			t.Errorf("IsAddress(%q) is true", s)
		}
	}
}

// torsion adds the point of order 2 to a key.
func torsion(t *testing.T, key ident.Ed25519ID) ident.Ed25519ID {
	t.Helper()
	p, err := new(edwards25519.Point).SetBytes(key[:])
	if err != nil {
		t.Fatal(err)
	}
	two := unhex(t, "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f") // y = -1
	q, err := new(edwards25519.Point).SetBytes(two)
	if err != nil {
		t.Fatal(err)
	}
	return ident.Ed25519ID(p.Add(p, q).Bytes())
}

// TestPeriods checks the example of rend-spec-v3, TIME-PERIODS.
func TestPeriods(t *testing.T) {
	const offset = 12 * time.Hour
	at := time.Date(2016, 4, 13, 11, 0, 0, 0, time.UTC)
	p := PeriodAt(at, DefaultPeriod, offset)
	if p.Num != 16903 {
		t.Fatalf("period %d, not 16903", p.Num)
	}
	if want := time.Date(2016, 4, 13, 12, 0, 0, 0, time.UTC); !p.End(offset).Equal(want) || !p.Next().Start(offset).Equal(want) {
		t.Errorf("the period ends at %v, not %v", p.End(offset), want)
	}
	if q := PeriodAt(at.Add(time.Hour-time.Second), DefaultPeriod, offset); q != p {
		t.Errorf("a second before its end the period is %v", q)
	}
	if q := PeriodAt(at.Add(time.Hour), DefaultPeriod, offset); q != p.Next() || q.Prev() != p {
		t.Errorf("at its end the period is %v", q)
	}
	if q := PeriodAt(time.Unix(5, 0), DefaultPeriod, offset); q.Num != 0 {
		t.Errorf("before the first period: %v", q)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzParseAddress(f *testing.F) {
	f.Add("25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion")
	f.Add("www.x.onion.")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseAddress(s)
		if err != nil {
			return
		}
		if a := Address(id); !strings.HasSuffix(strings.ToLower(strings.TrimSuffix(s, ".")), a) {
			t.Fatalf("%q was read as %s", s, a)
		}
	})
}

// TestEveryBitOfTheChecksum: an address of which any bit of the key or the checksum is another
// one is refused.
func TestEveryBitOfTheChecksum(t *testing.T) {
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := Address(ident.Ed25519ID(pub))
	b, err := encoding.DecodeString(strings.ToUpper(strings.TrimSuffix(good, suffix)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAddress(good); err != nil {
		t.Fatal(err)
	}
	for i := 8 * 32; i < 8*34; i++ {
		b[i/8] ^= 1 << (i % 8)
		if _, err := ReadAddress(strings.ToLower(encoding.EncodeToString(b)) + suffix); err == nil {
			t.Errorf("bit %d", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}
