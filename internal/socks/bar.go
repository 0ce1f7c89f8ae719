package socks

import (
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/stream"
)

// Bars are kinds of destinations that a port does not let through.
type Bars uint8

// The kinds of destinations.
const (
	BarIPv4   Bars = 1 << iota // addresses, and exits must not choose one
	BarIPv6                    // the same
	BarNames                   // host names, except onion services
	BarOnions                  // onion services
)

func (b Bars) with(one Bars, on bool) Bars {
	if b &^= one; on {
		b |= one
	}
	return b
}

// permits reports why a port does not let a destination through. A reverse lookup
// is a question about a name, whatever its address.
func (c *Config) permits(host string, reverse bool) error {
	a, err := netip.ParseAddr(host)
	bar, what := BarNames, "host names"
	switch {
	case reverse:
	case err == nil && a.Unmap().Is4():
		bar, what = BarIPv4, "IPv4 addresses"
	case err == nil:
		bar, what = BarIPv6, "IPv6 addresses"
	case hscrypto.IsAddress(host):
		bar, what = BarOnions, "onion services"
	}
	if c.Bars&bar == 0 {
		return nil
	}
	return fault.New(fault.Refused, "the port's flags do not let %s through", what)
}

// family says which addresses an exit may use for a host name.
func (c *Config) family() stream.Family {
	switch {
	case c.Bars&BarIPv6 != 0 && c.Bars&BarIPv4 == 0:
		return stream.IPv4Only
	case c.Bars&BarIPv4 != 0 && c.Bars&BarIPv6 == 0:
		return stream.IPv6Only
	case c.PreferIPv6:
		return stream.IPv6First
	}
	return stream.AnyFamily
}

// admitted returns the answers of a lookup that the port lets through, the
// preferred family first.
func (c *Config) admitted(answers []Answer) []Answer {
	if c.Bars&(BarIPv4|BarIPv6) == 0 && !c.PreferIPv6 {
		return answers
	}
	var first, second []Answer
	for _, a := range answers {
		is4 := a.Addr.Unmap().Is4()
		switch {
		case is4 && c.Bars&BarIPv4 != 0, !is4 && c.Bars&BarIPv6 != 0:
		case is4 && c.PreferIPv6:
			second = append(second, a)
		default:
			first = append(first, a)
		}
	}
	return append(first, second...)
}
