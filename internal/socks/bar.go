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

// barNames says in errors what a kind of destinations is.
var barNames = map[Bars]string{BarIPv4: "IPv4 addresses", BarIPv6: "IPv6 addresses", BarNames: "host names", BarOnions: "onion services"}

// permits reports why a port does not let a destination through.
func (c *Config) permits(host string) error {
	a, err := netip.ParseAddr(host)
	switch {
	case err == nil && a.Unmap().Is4():
		return c.bars(BarIPv4)
	case err == nil:
		return c.bars(BarIPv6)
	case hscrypto.IsAddress(host):
		return c.bars(BarOnions)
	}
	return c.bars(BarNames)
}

// bars reports that a port does not let one kind of destinations through.
func (c *Config) bars(one Bars) error {
	if c.Bars&one == 0 {
		return nil
	}
	return fault.New(fault.Refused, "the port's flags do not let %s through", barNames[one])
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

// wanted says which addresses a lookup is for: those that the port lets through.
func (c *Config) wanted() stream.Family {
	if c.Bars&BarIPv4 != 0 {
		return stream.IPv6Only
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
