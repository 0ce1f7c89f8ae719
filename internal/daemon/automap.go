package daemon

import (
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/socks"
)

// automap returns what gives names virtual addresses; nil: the options do not ask for it.
func (p *Ports) automap() (*socks.Automap, error) {
	four, err := virtualNetwork(p.VirtualAddrNetworkIPv4)
	if err != nil {
		return nil, options.Wrong("VirtualAddrNetworkIPv4", "%w", err)
	}
	if _, err := socks.NewAutomap(nil, four, netip.Prefix{}); err != nil {
		return nil, options.Wrong("VirtualAddrNetworkIPv4", "%w", err)
	}
	var six netip.Prefix
	if p.VirtualAddrNetworkIPv6 != "" {
		if six, err = virtualNetwork(p.VirtualAddrNetworkIPv6); err != nil {
			return nil, options.Wrong("VirtualAddrNetworkIPv6", "%w", err)
		}
	}
	a, err := socks.NewAutomap(p.AutomapHostsSuffixes, four, six)
	switch {
	case err != nil:
		return nil, options.Wrong("VirtualAddrNetworkIPv6", "%w", err)
	case !p.AutomapHostsOnResolve:
		return nil, nil
	}
	return a, nil
}

// virtualNetwork reads a network. C tor writes an IPv6 address in brackets.
func virtualNetwork(s string) (netip.Prefix, error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		s = strings.Replace(rest, "]", "", 1)
	}
	return netip.ParsePrefix(s)
}
