package netdir

import (
	_ "embed"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

//go:generate sh -c "go run public_gen.go \"$TOR_SOURCE\" > public.txt"

//go:embed public.txt
var publicText string

var public = sync.OnceValue(func() *Network {
	n, err := parsePublic(publicText)
	if err != nil {
		panic("netdir: public.txt: " + err.Error()) // embedded, and tested
	}
	return n
})

// Public returns the public Tor network, with the authorities and fallback
// directories of C tor 0.4.9.11. The caller may change the result.
func Public() *Network {
	n := *public()
	n.Authorities = append([]Authority(nil), n.Authorities...)
	n.Fallbacks = append([]Fallback(nil), n.Fallbacks...)
	return &n
}

// IsPublic reports whether a network has the authorities of the public network.
func (n *Network) IsPublic() bool { return slices.Equal(n.V3Idents(), public().V3Idents()) }

// parsePublic reads public.txt; its header describes the fields.
func parsePublic(text string) (*Network, error) {
	n := &Network{Name: "public", Testing: DefaultTesting()}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		var err error
		switch {
		case f[0] == "authority" && len(f) >= 6:
			err = n.addAuthority(f[1:])
		case f[0] == "fallback" && len(f) >= 3:
			err = n.addFallback(f[1:])
		default:
			err = fault.New(fault.Config, "not an authority or a fallback")
		}
		if err != nil {
			return nil, fault.New(fault.Config, "%q: %w", strings.TrimSpace(line), err)
		}
	}
	return n, nil
}

func (n *Network) addAuthority(f []string) (err error) {
	a := Authority{Nickname: f[0]}
	if a.V3Ident, err = ident.ParseRSAID(f[1]); err != nil {
		return err
	}
	if a.RSA, err = ident.ParseRSAID(f[2]); err != nil {
		return err
	}
	if a.DirPort, err = netip.ParseAddrPort(f[3]); err != nil {
		return err
	}
	a.ORPorts, err = parseAddrPorts(f[4:])
	n.Authorities = append(n.Authorities, a)
	return err
}

func (n *Network) addFallback(f []string) (err error) {
	var fb Fallback
	if fb.RSA, err = ident.ParseRSAID(f[0]); err != nil {
		return err
	}
	fb.ORPorts, err = parseAddrPorts(f[1:])
	n.Fallbacks = append(n.Fallbacks, fb)
	return err
}

func parseAddrPorts(f []string) ([]netip.AddrPort, error) {
	out := make([]netip.AddrPort, 0, len(f))
	for _, s := range f {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, err
		}
		out = append(out, ap)
	}
	return out, nil
}
