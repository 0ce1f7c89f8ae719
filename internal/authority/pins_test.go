package authority

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// The owner of an Ed25519 identity may sign descriptors of many RSA identities. C tor's
// authorities refuse a vote with two of them, and with it all relays.
func TestOneRelayForAnIdentity(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 2), keyPool(t, 1024, 1)[0]
	all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) { c.Accept.AssumeReachable = false })
	first := newTestRelay(t, 0, relayKeys[0], onion)
	second := newTestRelay(t, 1, relayKeys[1], onion)
	keys := *first.keys
	keys.Identity = relayKeys[1]
	second.keys = &keys
	for i, r := range []*testRelay{first, second} {
		if status, words := all[0].upload(netip.Addr{}, r.sign(t).Text); (status == 200) != (i == 0) {
			t.Errorf("%s: %d %s", r.desc.Nickname, status, words)
		}
	}
	v, err := all[0].makeVote(all[0].startRound())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[ident.Ed25519ID]bool{}
	for i := range v.Routers {
		if id := v.Routers[i].Ed; seen[id] {
			t.Error("the vote has one Ed25519 identity twice")
		} else {
			seen[id] = true
		}
	}
}
