package hostile

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// The keys of the authorities and of relays. Two relays are honest, the others
// belong to the attacker.
const (
	authCount   = 3
	authRelays  = 6
	honestRelay = 2
)

type authKeys struct {
	identity, signing [authCount]*rsa.PrivateKey
	cert              [authCount]*netdoc.AuthCert
	relays            [authRelays]*netdoc.DescKeys
	network           *netdir.Network
}

func authAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 3, byte(i + 1)}), 80)
}

var authNet = sync.OnceValues(func() (*authKeys, error) {
	k := &authKeys{network: &netdir.Network{Name: "hostile"}}
	generate := func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) }
	var err error
	for i := range authCount {
		if k.identity[i], err = generate(); err != nil {
			return nil, err
		}
		if k.signing[i], err = generate(); err != nil {
			return nil, err
		}
		if k.cert[i], err = netdoc.MakeAuthCert(rand.Reader, k.identity[i], k.signing[i], authAddr(i), epoch, epoch.AddDate(1, 0, 0)); err != nil {
			return nil, err
		}
		k.network.Authorities = append(k.network.Authorities, netdir.Authority{
			Nickname: fmt.Sprintf("auth%d", i), V3Ident: k.cert[i].Identity, RSA: [20]byte{byte(i + 1)}, DirPort: authAddr(i),
		})
	}
	onion, err := generate()
	if err != nil {
		return nil, err
	}
	for i := range authRelays {
		identity, err := generate()
		if err != nil {
			return nil, err
		}
		master, err := cert.GenerateExpanded(rand.Reader)
		if err != nil {
			return nil, err
		}
		signing, err := cert.GenerateExpanded(rand.Reader)
		if err != nil {
			return nil, err
		}
		d := netdoc.DescKeys{Identity: identity, Ed: master.Public(), Signing: signing, Onion: onion, NtorSecret: [32]byte{byte(i + 1)}}
		if i%2 == 1 { // relays of both kinds: with and without a TAP key
			d.Onion = nil
		}
		k.relays[i] = netdoc.NewDescKeys(d, master.Sign, epoch.Add(30*24*time.Hour))
	}
	return k, nil
})

func makeAuthNet() error {
	_, err := authNet()
	return err
}

// descriptor returns a descriptor of the relay of that number, published now.
func descriptor(i int, platform string) []byte {
	k, err := authNet()
	if err != nil {
		return nil
	}
	d := netdoc.RouterDesc{
		Nickname: fmt.Sprintf("relay%d", i), Addr: netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), ORPort: 9001, Platform: platform,
		Proto: "Link=1-5 Relay=1-4", BandwidthRate: 1 << 30, BandwidthBurst: 1 << 30, BandwidthObserved: 1 << 20,
		HSDir: true, TunnelledDir: true, Policy: netdoc.ExitPolicy{{Ports: netdoc.AllPorts}}, Published: now(),
	}
	if d.Protocols, err = protover.Parse(d.Proto); err != nil {
		return nil
	}
	out, err := d.Sign(rand.Reader, k.relays[i], now())
	if err != nil {
		return nil
	}
	return out.Text
}

const honestPlatform = "Tor 0.4.9.11 on Linux"
