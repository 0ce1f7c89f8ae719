package interop

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// No relay can divide the authorities: whatever descriptors it has signed, C tor's
// authorities take the votes of Chive's, and all sign the same consensus.
func TestMixedOddDescriptors(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	an := newAuthorityNet(t, 2, 2, 7, "")
	an.startRelays(3, 2)
	an.await("a round that all sign", patience, func() bool { return an.agreed(2, 4) })
	var names []string
	to := an.net.Authorities
	post := func(text []byte) {
		for _, x := range to {
			res, err := http.Post("http://"+x.DirPort.String()+"/tor/", "text/plain", strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close() // each may take it or refuse it
		}
	}
	odd := func(keys *netdoc.DescKeys, platform, proto string) {
		now := time.Now()
		d := netdoc.RouterDesc{
			Nickname: fmt.Sprintf("odd%d", len(names)), Addr: netip.AddrFrom4([4]byte{127, 0, 0, byte(len(names) + 10)}), ORPort: 9, Published: now,
			Platform: platform, Proto: proto, BandwidthRate: 1 << 20, BandwidthBurst: 1 << 20, BandwidthObserved: 1 << 20,
			Policy: netdoc.ExitPolicy{{Ports: netdoc.AllPorts}},
		}
		names = append(names, d.Nickname)
		signed, err := d.Sign(rand.Reader, keys, now)
		if err != nil {
			t.Fatal(err)
		}
		post(signed.Text)
	}
	odd(oddKeys(t, nil), "Tor 0.4.9.11 on Linux", " ")
	odd(oddKeys(t, nil), "Tor  0.4.9.11 on Linux", "Link=4-5 Relay=2-4 ")
	last := oddKeys(t, nil)
	odd(last, "Tor 0.4.9.11 on Linux", "Link=4-5")
	odd(oddKeys(t, last), "Tor 0.4.9.11 on Linux", "Link=4-5")
	listed := func(name string) bool {
		is := func(r netdoc.RouterStatus) bool { return strings.HasPrefix(r.Nickname, name) }
		return slices.ContainsFunc(an.vote(0).Routers, is) && slices.ContainsFunc(an.vote(2).Routers, is)
	}
	an.await("votes with these relays", patience, func() bool { return listed("odd") })
	// Each gets from the others what was not uploaded to it.
	for _, to = range [][]netdir.Authority{an.net.Authorities[:1], an.net.Authorities[2:3]} {
		odd(oddKeys(t, nil), "Tor 0.4.9.11 on Linux", "Link=4-5 Relay=2-4")
		an.await("votes with a relay that uploaded to one authority", patience, func() bool { return listed(names[len(names)-1]) })
	}
	an.mu.Lock()
	clear(an.published)
	an.mu.Unlock()
	an.await("another round that all sign", patience, func() bool { return an.agreed(2, 4) })
}

// oddKeys makes a relay's keys, with the Ed25519 identity of other if that is not nil.
func oddKeys(t *testing.T, other *netdoc.DescKeys) *netdoc.DescKeys {
	t.Helper()
	var rsas [2]*rsa.PrivateKey
	for i := range rsas {
		k, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		rsas[i] = k
	}
	if other != nil {
		keys := *other
		keys.Identity, keys.Onion = rsas[0], rsas[1]
		return &keys
	}
	master, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := netdoc.DescKeys{Identity: rsas[0], Ed: master.Public(), Signing: signing, Onion: rsas[1], NtorSecret: [32]byte{1}}
	return netdoc.NewDescKeys(k, master.Sign, time.Now().Add(24*time.Hour))
}
