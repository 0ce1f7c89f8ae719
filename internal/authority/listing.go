package authority

import (
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// listing has the relays of a consensus, with their flags.
type listing struct {
	netdoc.Lifetime
	flags map[ident.RSAID]netdoc.Flags
}

// listingOf lists the relays of a whole consensus.
func listingOf(c *netdoc.Consensus) listing {
	l := listing{Lifetime: c.Lifetime, flags: map[ident.RSAID]netdoc.Flags{}}
	for i := range c.Routers {
		l.flags[c.Routers[i].RSA] = c.Routers[i].Flags
	}
	return l
}

// has reports whether the consensus lists a relay.
func (l *listing) has(id ident.RSAID) bool {
	_, ok := l.flags[id]
	return ok
}

// hsdir reports whether the consensus calls a relay a directory of onion services, and
// is recent: clients may still use it.
func (l *listing) hsdir(id ident.RSAID, now time.Time) bool {
	return l.flags[id].Has(netdoc.FlagHSDir) && l.ReasonablyLive(now)
}

// readConsensus reads a consensus without its relays, and lists them.
func readConsensus(text []byte) (*netdoc.Consensus, listing, error) {
	l := listing{flags: map[ident.RSAID]netdoc.Flags{}}
	c, err := netdoc.ParseConsensus(text, nil, func(rs *netdoc.RouterStatus) error {
		l.flags[rs.RSA] = rs.Flags
		return nil
	})
	if err != nil {
		return nil, l, err
	}
	l.Lifetime = c.Lifetime
	return c, l, nil
}
