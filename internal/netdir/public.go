package netdir

import (
	_ "embed"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

//go:embed public.txt
var publicText string

// Origin says where a list of the public network comes from.
type Origin struct {
	Tor  string    // the version of C tor that has this list
	Date time.Time // the day on which its fallback directories were chosen
}

// maxAge is how long a list is good without doubt: C tor's authorities change about once a
// year, and of the relays that it names some leave every week.
const maxAge = 365 * 24 * time.Hour

// Old reports whether a list is so old that a newer version of the program should be used.
func (o Origin) Old(now time.Time) bool { return now.Sub(o.Date) > maxAge }

type publicList struct {
	network *Network
	origin  Origin
}

var public = sync.OnceValue(func() publicList {
	n, from, err := parsePublic(publicText)
	if err != nil {
		panic("netdir: public.txt: " + err.Error()) // embedded, and tested
	}
	return publicList{n, from}
})

// Public returns the public Tor network, with the authorities and fallback
// directories of the C tor that PublicOrigin names. The caller may change the result.
func Public() *Network {
	n := *public().network
	n.Authorities = append([]Authority(nil), n.Authorities...)
	n.Fallbacks = append([]Fallback(nil), n.Fallbacks...)
	return &n
}

// PublicOrigin says where the list of the public network comes from.
func PublicOrigin() Origin { return public().origin }

// IsPublic reports whether a network has the authorities of the public network.
func (n *Network) IsPublic() bool { return slices.Equal(n.V3Idents(), public().network.V3Idents()) }

// parsePublic reads public.txt; its header describes the fields.
func parsePublic(text string) (*Network, Origin, error) {
	n := &Network{Name: "public", Testing: DefaultTesting()}
	var from Origin
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		var err error
		switch {
		case f[0] == "from" && len(f) == 4 && f[1] == "tor" && from.Tor == "":
			from.Tor = f[2]
			from.Date, err = time.Parse(time.DateOnly, f[3])
		case f[0] == "authority" && len(f) >= 6:
			err = n.addAuthority(f[1:])
		case f[0] == "fallback" && len(f) >= 3:
			err = n.addFallback(f[1:])
		default:
			err = fault.New(fault.Config, "not an authority or a fallback, and not the first line \"from\"")
		}
		if err != nil {
			return nil, from, fault.New(fault.Config, "%q: %w", strings.TrimSpace(line), err)
		}
	}
	if from.Tor == "" {
		return nil, from, fault.New(fault.Config, "it does not say from which tor it is")
	}
	return n, from, nil
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
