package cert

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// vector reads a file of hexadecimal digits in testdata; origins are in
// testdata/README.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	s, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(s)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func utc(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

var (
	chutneyNow      = utc("2020-09-25T02:13:20Z")
	chutneyIdentity = ident.Ed25519ID(mustHex("dcb604db2034b00fd16986d4adb9d16b21cb4e4457a33dec0f538903683e96e9"))
	chutneySigning  = ident.Ed25519ID(mustHex("f82294b866a31f01fc5d0da8572850a9b929545c3266558d7d2316e3b74172b0"))
)

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// randReader is deterministic.
func randReader() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(randReader(), RSAIdentityBits)
	if err != nil {
		panic(err)
	}
	return k
})

func edKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
}

func TestPublishedEd25519(t *testing.T) {
	c4, err := ParseEd25519(vector(t, "chutney-type4.hex"))
	if err != nil {
		t.Fatal(err)
	}
	if !c4.HasSigner || c4.Signer != chutneyIdentity || c4.Key != [32]byte(chutneySigning) || c4.KeyType != KeyEd25519 || !c4.Expires.Equal(utc("2020-10-26T18:00:00Z")) {
		t.Errorf("%+v", c4)
	}
	if err := c4.Verify(IdentityVSigning, c4.Signer, chutneyNow); err != nil {
		t.Error(err)
	}
	c5, err := ParseEd25519(vector(t, "chutney-type5.hex"))
	if err != nil {
		t.Fatal(err)
	}
	digest := mustHex("b4fd606b64e4cbd466b8d76cb131069bae6f3aa1878857c9f624e31d77a799b8")
	if c5.HasSigner || !bytes.Equal(c5.Key[:], digest) || c5.KeyType != KeySHA256OfX509 || !c5.Expires.Equal(utc("2020-09-28T18:00:00Z")) {
		t.Errorf("%+v", c5)
	}
	if err := c5.Verify(SigningVTLS, chutneySigning, chutneyNow); err != nil {
		t.Error(err)
	}
}

func TestPublishedEd25519Refused(t *testing.T) {
	for s, want := range map[string]string{
		"03": "unknown version 3",
		"0104 0006CC2A 01 F82294B866A31F01FC5D0DA8572850A9B929545C3266558D7D2316E3B74172B0 01 0021 04 00 DCB604DB2034B00FD16986D4ADB9D16B21CB4E4457A33DEC0F538903683E96E9FF" + strings.Repeat("FF", 64): "signing key of 33 bytes",
		"0104 0006CC2A 01 F82294B866A31F01FC5D0DA8572850A9B929545C3266558D7D2316E3B74172B0 01 0020 09 01 DCB604DB2034B00FD16986D4ADB9D16B21CB4E4457A33DEC0F538903683E96E9" + strings.Repeat("FF", 64):   "extension of unknown type 9 affects validation",
	} {
		_, err := ParseEd25519(mustHex(strings.ReplaceAll(s, " ", "")))
		if err == nil || !strings.Contains(err.Error(), want) || !fault.Is(err, fault.Protocol) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	good := vector(t, "chutney-type4.hex")
	for n := range good {
		if _, err := ParseEd25519(good[:n]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", n, len(good))
		}
	}
	if _, err := ParseEd25519(append(bytes.Clone(good), 0)); err == nil || !strings.Contains(err.Error(), "left over") {
		t.Error(err)
	}
}

func TestVerifyEd25519(t *testing.T) {
	good := vector(t, "chutney-type4.hex")
	c, err := ParseEd25519(good)
	if err != nil {
		t.Fatal(err)
	}
	check := func(c *Ed25519, typ Type, key ident.Ed25519ID, now time.Time, want string) {
		t.Helper()
		if err := c.Verify(typ, key, now); err == nil || !strings.Contains(err.Error(), want) || !fault.Is(err, fault.Protocol) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	check(c, SigningVTLS, chutneyIdentity, chutneyNow, "type 4, not 5")
	check(c, IdentityVSigning, chutneySigning, chutneyNow, "names another signing key")
	check(c, IdentityVSigning, chutneyIdentity, utc("2020-10-27T18:00:00Z"), "expired (24h0m0s ago)")
	if err := c.Verify(IdentityVSigning, chutneyIdentity, c.Expires.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Error(err)
	}
	if err := c.Verify(IdentityVSigning, chutneyIdentity, c.Expires); err != nil {
		t.Error(err)
	}
	for _, at := range []int{2, 10, 60, 90, len(good) - 1} {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		c, err := ParseEd25519(bad)
		if err != nil {
			continue
		}
		if c.Verify(c.Type, c.Signer, chutneyNow) == nil {
			t.Errorf("byte %d changed, and still it verifies", at)
		}
	}
	c5, err := ParseEd25519(vector(t, "chutney-type5.hex"))
	if err != nil {
		t.Fatal(err)
	}
	check(c5, SigningVTLS, chutneyIdentity, chutneyNow, "signature is wrong")
}

func TestMakeEd25519(t *testing.T) {
	key := edKey(1)
	exp := utc("2030-01-01T00:30:00Z")
	made := Ed25519{Type: SigningVLinkAuth, Expires: exp, KeyType: KeyEd25519, Key: [32]byte{7}, Signer: IdentityOf(key), HasSigner: true, Exts: []Ext{{9, 0, []byte("x")}}}
	enc := made.Encode(SignerOf(key))
	c, err := ParseEd25519(enc)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(SigningVLinkAuth, IdentityOf(key), exp); err != nil {
		t.Error(err)
	}
	if !c.Expires.Equal(utc("2030-01-01T01:00:00Z")) || len(c.Exts) != 1 || c.Exts[0].Type != 9 {
		t.Errorf("%+v", c)
	}
	if again := c.Encode(SignerOf(key)); !bytes.Equal(again, enc) {
		t.Error("encoding again differs")
	}
	// The old wrong key type of link certificates.
	old := Ed25519{Type: SigningVTLS, Expires: exp, KeyType: KeyEd25519}
	if c, err := ParseEd25519(old.Encode(SignerOf(key))); err != nil || c.KeyType != KeySHA256OfX509 || c.Verify(SigningVTLS, IdentityOf(key), exp) != nil {
		t.Errorf("%+v %v", c, err)
	}
	two := append(made.Exts, Ext{extSignedWith, 0, make([]byte, 32)})
	made.Exts = two
	if _, err := ParseEd25519(made.Encode(SignerOf(key))); err == nil {
		t.Error("two signing keys were accepted")
	}
}

func TestPublishedCross(t *testing.T) {
	id, err := ParseRSAIdentity(vector(t, "chutney-type2.hex"))
	if err != nil {
		t.Fatal(err)
	}
	if id.ID.String() != "2F1FB49BB332A9EEC617E41E911C33FB3890AEF3" || id.Key.N.BitLen() != 1024 {
		t.Errorf("%+v", id)
	}
	if err := id.CheckTime(chutneyNow); err != nil {
		t.Error(err)
	}
	raw := vector(t, "chutney-type7.hex")
	c, err := ParseRSACross(raw)
	if err != nil || c.Key != chutneyIdentity {
		t.Fatal(err)
	}
	if err := c.Verify(id.Key, chutneyNow); err != nil {
		t.Error(err)
	}
	if err := c.Verify(id.Key, c.Expires.Add(time.Minute)); !errors.Is(err, ErrExpired) || !fault.Is(err, fault.Protocol) {
		t.Error(err)
	}
	if err := c.Verify(&rsaKey().PublicKey, chutneyNow); err == nil || !strings.Contains(err.Error(), "signature is wrong") {
		t.Error(err)
	}
	for _, at := range []int{0, 33, 40, len(raw) - 1} {
		bad := bytes.Clone(raw)
		bad[at] ^= 1
		if c, err := ParseRSACross(bad); err == nil && c.Verify(id.Key, chutneyNow) == nil {
			t.Errorf("byte %d changed, and still it verifies", at)
		}
	}
	for n := range raw {
		if _, err := ParseRSACross(raw[:n]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", n, len(raw))
		}
	}
}

func TestMakeCross(t *testing.T) {
	exp := utc("2030-01-01T00:30:00Z")
	enc, err := SignRSACross(rsaKey(), chutneyIdentity, exp)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseRSACross(enc)
	if err != nil || c.Key != chutneyIdentity || !c.Expires.Equal(utc("2030-01-01T01:00:00Z")) {
		t.Fatal(c, err)
	}
	if err := c.Verify(&rsaKey().PublicKey, exp); err != nil {
		t.Error(err)
	}
	big, err := rsa.GenerateKey(randReader(), 2048)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := SignRSACross(big, chutneyIdentity, exp); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}

// TestLinkLife: a certificate of TLS is valid for 5 to 364 whole days, or a second less.
func TestLinkLife(t *testing.T) {
	const day = 24 * time.Hour
	for n, want := range map[uint64]time.Duration{0: 5 * day, 1: 5*day - time.Second, 2: 6 * day, 2*359 + 1: 364*day - time.Second, 2 * 360: 5 * day} {
		if got, err := LinkLife(bytes.NewReader(binary.BigEndian.AppendUint64(nil, n))); err != nil || got != want {
			t.Errorf("of %d: %v, not %v: %v", n, got, want, err)
		}
	}
	if _, err := LinkLife(bytes.NewReader(nil)); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

// TestSerial: all of a certificate's serial number is random, and it is not zero.
func TestSerial(t *testing.T) {
	now := utc("2026-05-05T12:00:00Z")
	for n, want := range map[uint64]uint64{0: 1, 6: 6} {
		der, err := (&X509{"www.a.net", "www.b.com", now, now}).Sign(io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint64(nil, n)), randReader()), &rsaKey().PublicKey, rsaKey())
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil || c.SerialNumber.Uint64() != want {
			t.Errorf("of %d: %v, not %d: %v", n, c.SerialNumber, want, err)
		}
	}
}

func TestMakeX509(t *testing.T) {
	now := utc("2026-05-05T12:00:00Z")
	nb, na, err := Lifetime(randReader(), now, 365*24*time.Hour)
	if err != nil || nb.After(now) || na.Before(now.Add(24*time.Hour)) || nb.Hour() != 0 || na.Sub(nb) != 365*24*time.Hour {
		t.Fatal(nb, na, err)
	}
	name, err := RandomHostname(randReader(), 8, 20, ".net")
	if err != nil || !strings.HasPrefix(name, "www.") || !strings.HasSuffix(name, ".net") || len(name) < 16 || len(name) > 28 {
		t.Fatal(name, err)
	}
	der, err := (&X509{name, name, nb, na}).Sign(randReader(), &rsaKey().PublicKey, rsaKey())
	if err != nil {
		t.Fatal(err)
	}
	id, err := ParseRSAIdentity(der)
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := RSAKeyID(&rsaKey().PublicKey); id.ID != want {
		t.Error(id.ID)
	}
	// The same shape as C tor's: only key, names, times, serial number and
	// signature differ.
	if got, want := shape(t, der), shape(t, vector(t, "chutney-type2.hex")); got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// shape is what of a certificate does not depend on its keys, names and times.
func shape(t *testing.T, der []byte) string {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{c.SignatureAlgorithm.String(), hex.EncodeToString(c.RawSubject[6:12]), hex.EncodeToString(c.RawIssuer[6:12]),
		string(rune('0' + c.Version)), string(rune('0' + len(c.Extensions))), c.PublicKeyAlgorithm.String()}, " ")
}

func TestRSAIdentityRefused(t *testing.T) {
	now := utc("2026-05-05T12:00:00Z")
	spec := X509{"www.a.com", "www.a.com", now, now.Add(time.Hour)}
	other, err := rsa.GenerateKey(randReader(), 2048)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(pub *rsa.PublicKey, key *rsa.PrivateKey) []byte {
		der, err := spec.Sign(randReader(), pub, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	good := sign(&rsaKey().PublicKey, rsaKey())
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for what, c := range map[string]struct {
		der  []byte
		want string
	}{
		"garbage":      {[]byte("garbage"), "RSA identity certificate"},
		"2048 bits":    {sign(&other.PublicKey, other), "key of 2048 bits"},
		"other signer": {sign(&rsaKey().PublicKey, other), "not signed by its own key"},
		"flipped":      {flipped, "not signed by its own key"},
		"trailing":     {append(bytes.Clone(good), 0), "RSA identity certificate"},
		"truncated":    {good[:len(good)-1], "RSA identity certificate"},
	} {
		if _, err := ParseRSAIdentity(c.der); err == nil || !strings.Contains(err.Error(), c.want) || !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v does not say %q", what, err, c.want)
		}
	}
	id, err := ParseRSAIdentity(good)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]error{
		now:                                nil,
		now.Add(time.Hour + pastSlop):      nil,
		now.Add(2*time.Hour + pastSlop):    ErrExpired,
		now.Add(-futureSlop):               nil,
		now.Add(-futureSlop - time.Minute): ErrNotYetValid,
	} {
		if err := id.CheckTime(at); !errors.Is(err, want) {
			t.Errorf("%v: %v, not %v", at, err, want)
		}
	}
}

func TestRandomFails(t *testing.T) {
	empty := bytes.NewReader(nil)
	if _, err := RandomHostname(empty, 4, 25, ".net"); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	if _, _, err := Lifetime(empty, chutneyNow, time.Hour); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	if _, err := (&X509{}).Sign(empty, &rsaKey().PublicKey, rsaKey()); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

func FuzzEd25519(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseEd25519(b)
		if err != nil {
			return
		}
		// Only the signed part is compared: fuzzing has no private key.
		enc := c.Encode(func([]byte) []byte { return c.signature })
		again, err := ParseEd25519(enc)
		if err != nil || again.Key != c.Key || again.Signer != c.Signer || len(again.Exts) != len(c.Exts) || !again.Expires.Equal(c.Expires) {
			t.Fatalf("%+v became %+v: %v", c, again, err)
		}
		c.Verify(c.Type, c.Signer, chutneyNow)
	})
}

func FuzzRSACross(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseRSACross(b); err == nil && c.Verify(&rsaKey().PublicKey, chutneyNow) == nil {
			t.Fatal("a forged signature")
		}
	})
}

func FuzzRSAIdentity(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := ParseRSAIdentity(b); err == nil && id.Key.N.BitLen() != RSAIdentityBits {
			t.Fatal("a key of another size")
		}
	})
}
