package authority

import (
	"crypto/ed25519"
	"crypto/rand"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cert"
)

// A descriptor whose family certificate expires is voted on until then, and not
// afterwards.
func TestFamilyCertificateExpires(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 2), keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 1, identities, signings, nil)
		a := all[0]
		_, family, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for i, life := range []time.Duration{3 * time.Hour, 30 * time.Hour} {
			r := newTestRelay(t, i, relayKeys[i], onion)
			c := cert.Ed25519{Type: cert.FamilyVIdentity, Expires: time.Now().Add(life), KeyType: cert.KeyEd25519, Key: r.keys.Ed, Signer: cert.IdentityOf(family), HasSigner: true}
			r.keys.FamilyCerts = [][]byte{c.Encode(cert.SignerOf(family))}
			if status, words := a.upload(netip.Addr{}, r.sign(t).Text); status != 200 {
				t.Fatal(words)
			}
		}
		voted := func() int {
			v, err := a.makeVote(a.startRound())
			if err != nil {
				t.Fatal(err)
			}
			return len(v.Routers)
		}
		if n := voted(); n != 2 {
			t.Errorf("at first %d relays are in the vote", n)
		}
		time.Sleep(3 * time.Hour)
		if n := voted(); n != 2 {
			t.Errorf("when it expires %d relays are in the vote", n)
		}
		time.Sleep(time.Hour)
		if n := voted(); n != 1 {
			t.Errorf("after it has expired %d relays are in the vote", n)
		}
	})
}
