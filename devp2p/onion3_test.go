package devp2p

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base32"
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// testOnion returns the onion of a key that is made of one byte.
func testOnion(seed byte) Onion3 {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return onionOf(key.Public().(ed25519.PublicKey))
}

// onionOf returns the onion of a public key.
func onionOf(key ed25519.PublicKey) Onion3 {
	address, err := chive.OnionAddress(key)
	if err != nil {
		panic(err)
	}
	return Onion3(address)
}

// rawOnion returns the 35 bytes of an onion.
func rawOnion(t testing.TB, o Onion3) []byte {
	t.Helper()
	b, err := base32.StdEncoding.DecodeString(strings.ToUpper(strings.TrimSuffix(o.Addr(), ".onion")))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOnion3(t *testing.T) {
	want := testOnion(1)
	for name, entry := range map[string]enr.Entry{
		"as written": want,
		"text":       enr.WithEntry("onion3", want.Addr()),
		"upper case": enr.WithEntry("onion3", strings.ToUpper(want.Addr())),
		"raw":        enr.WithEntry("onion3", rawOnion(t, want)),
	} {
		n := nodetest.Node(t, entry, enr.TCP(30303))
		// The record must survive its text.
		n, err := enode.Parse(enode.ValidSchemes, n.String())
		if err != nil {
			t.Fatal(err)
		}
		host, port, err := OnionOf(n)
		if err != nil || host != want.Addr() || port != 30303 {
			t.Errorf("%s: %s:%d, %v", name, host, port, err)
		}
	}
	b, err := rlp.EncodeToBytes(want)
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := rlp.EncodeToBytes(rawOnion(t, want)); !bytes.Equal(b, raw) {
		t.Errorf("the entry is %x, not the 35 bytes %x", b, raw)
	}
}

func TestOnion3Malformed(t *testing.T) {
	good := testOnion(1)
	wrongSum := rawOnion(t, good)
	wrongSum[33] ^= 1
	version := rawOnion(t, good)
	version[34] = 2
	// The identity of the curve has a small order.
	small := make(ed25519.PublicKey, ed25519.PublicKeySize)
	small[0] = 1
	for _, c := range []struct {
		name  string
		entry enr.Entry
		want  string
	}{
		{"checksum", enr.WithEntry("onion3", wrongSum), "checksum"},
		{"version", enr.WithEntry("onion3", version), "version 2"},
		{"small order", enr.WithEntry("onion3", onionOf(small).Addr()), "prime order"},
		{"short", enr.WithEntry("onion3", good.Addr()[1:]), "neither"},
		{"long", enr.WithEntry("onion3", good.Addr()+"."), "neither"},
		{"a host before it", enr.WithEntry("onion3", "www."+good.Addr()[4:]), "56 letters"},
		{"not base32", enr.WithEntry("onion3", "1"+good.Addr()[1:]), "base32"},
		{"list", enr.WithEntry("onion3", []string{good.Addr()}), "neither"},
		{"empty", enr.WithEntry("onion3", ""), "neither"},
	} {
		_, _, err := OnionOf(nodetest.Node(t, c.entry, enr.TCP(1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if errors.Is(err, ErrNoOnion) {
			t.Errorf("%s: a malformed onion counts as none", c.name)
		}
	}
	if _, _, err := OnionOf(nodetest.Node(t, good)); err == nil || !strings.Contains(err.Error(), "port") {
		t.Errorf("without a port: %v", err)
	}
	if _, _, err := OnionOf(nodetest.Node(t, enr.TCP(1))); !errors.Is(err, ErrNoOnion) {
		t.Errorf("without an onion: %v", err)
	}
	if _, err := rlp.EncodeToBytes(Onion3("x.onion")); err == nil {
		t.Error("a malformed onion was encoded")
	}
}

// TestOnionOfURL: a host name below .onion in an enode URL is an onion, too.
func TestOnionOfURL(t *testing.T) {
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	want := testOnion(2)
	n := enode.NewV4(&key.PublicKey, nil, 30304, 0).WithHostname(want.Addr())
	if host, port, err := OnionOf(n); err != nil || host != want.Addr() || port != 30304 {
		t.Errorf("%s:%d, %v", host, port, err)
	}
	if _, _, err := OnionOf(n.WithHostname("x" + want.Addr()[1:])); err == nil || errors.Is(err, ErrNoOnion) {
		t.Errorf("a mistyped address: %v", err)
	}
	if _, _, err := OnionOf(n.WithHostname("example.com")); !errors.Is(err, ErrNoOnion) {
		t.Errorf("a clear name: %v", err)
	}
}

// FuzzOnion3 reads any bytes as the entry of a record. What it takes must be valid,
// and must come back the same.
func FuzzOnion3(f *testing.F) {
	for _, v := range []any{testOnion(1).Addr(), rawOnion(f, testOnion(2)), "", []string{"x"}} {
		b, err := rlp.EncodeToBytes(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var o Onion3
		if err := rlp.DecodeBytes(b, &o); err != nil {
			if o != "" {
				t.Fatalf("%q beside an error", o)
			}
			return
		}
		if _, err := chive.ParseOnionAddress(o.Addr()); err != nil {
			t.Fatalf("%q: %v", o, err)
		}
		out, err := rlp.EncodeToBytes(o)
		if err != nil {
			t.Fatal(err)
		}
		var again Onion3
		if err := rlp.DecodeBytes(out, &again); err != nil || again != o {
			t.Fatalf("%q, then %q, %v", o, again, err)
		}
	})
}
