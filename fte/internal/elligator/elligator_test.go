package elligator

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"testing"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

func be(t *testing.T, s string) (b [Size]byte) {
	t.Helper()
	v, err := hex.DecodeString(s)
	if err != nil || len(v) != Size {
		t.Fatal("bad vector")
	}
	slices.Reverse(v)
	return [Size]byte(v)
}

// TestRFC9380 checks Decode against the u and Q.x of appendix J.4.2,
// curve25519_XMD:SHA-512_ELL2_NU_.
func TestRFC9380(t *testing.T) {
	for _, v := range [][2]string{
		{"608d892b641f0328523802a6603427c26e55e6f27e71a91a478148d45b5093cd", "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b"},
		{"46f5b22494bfeaa7f232cc8d054be68561af50230234d7d1d63d1d9abeca8da5", "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb"},
		{"235fe40c443766ce7e18111c33862d66c3b33267efa50d50f9e8e5d252a40aaa", "3fbe66b9c9883d79e8407150e7c2a1c8680bee496c62fabe4619a72b3cabe90f"},
		{"001e92a544463bda9bd04ddbe3d6eed248f82de32f522669efc5ddce95f46f5b", "227e0bb89de700385d19ec40e857db6e6a3e634b1c32962f370d26f84ff19683"},
	} {
		u, want := be(t, v[0]), be(t, v[1])
		if u[31]&0x40 != 0 { // u and -u name the same point; take the short one
			e, err := new(field.Element).SetBytes(u[:])
			if err != nil {
				t.Fatal(err)
			}
			u = [Size]byte(e.Negate(e).Bytes())
		}
		if got := Decode(&u); got != want {
			t.Errorf("u = %s: %x, not %x", v[0], got, want)
		}
	}
}

func TestGenerateAgrees(t *testing.T) {
	peer, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dirty := 0
	for range 64 {
		priv, rep, err := Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		pub := Decode(&rep)
		k, err := ecdh.X25519().NewPrivateKey(priv[:])
		if err != nil {
			t.Fatal(err)
		}
		mine, err := k.ECDH(peer.PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		p, err := ecdh.X25519().NewPublicKey(pub[:])
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := peer.ECDH(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mine, theirs) {
			t.Fatal("the two sides of X25519 disagree")
		}
		if !bytes.Equal(k.PublicKey().Bytes(), pub[:]) {
			dirty++ // a small-order part shows as another u-coordinate
		}
	}
	if dirty < 32 {
		t.Errorf("%d of 64 points have a small-order part; 7 in 8 should", dirty)
	}
}

// TestRoundTrip maps random strings forward, back and forward again.
func TestRoundTrip(t *testing.T) {
	for range 256 {
		var rep [Size]byte
		rand.Read(rep[:])
		pub := Decode(&rep)
		seen := false
		for bit := range byte(2) {
			back, ok := encode(&pub, bit|rep[31]&0xc0)
			if !ok {
				t.Fatal("a decoded point has no representative")
			}
			if Decode(&back) != pub {
				t.Fatal("encode and Decode disagree")
			}
			// r and -r name the same point; both fit into 254 bits only
			// for the smaller one, which encode returns.
			seen = seen || back == rep
		}
		if !seen && rep[31]&0x3f < 0x3f {
			t.Fatal("no choice gives the representative back")
		}
	}
}

// TestUniform counts every bit of generated representatives.
func TestUniform(t *testing.T) {
	const n = 2000
	var ones [256]int
	for range n {
		_, rep, err := Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ones {
			ones[i] += int(rep[i/8]>>(i%8)) & 1
		}
	}
	for i, c := range ones {
		if c < n/2-180 || c > n/2+180 { // 8 standard deviations
			t.Errorf("bit %d is set in %d of %d", i, c, n)
		}
	}
}

func TestSmallOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range torsion {
		seen[string(p.Bytes())] = true
		if new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) != 1 {
			t.Error("a point of the small subgroup has another order")
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d points, not 8", len(seen))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, Size))
	f.Add(bytes.Repeat([]byte{0xff}, Size))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != Size {
			return
		}
		pub := Decode((*[Size]byte)(b))
		for bit := range byte(2) {
			if rep, ok := encode(&pub, bit); ok && Decode(&rep) != pub {
				t.Fatal("encode and Decode disagree")
			}
		}
	})
}
