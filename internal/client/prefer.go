package client

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
)

// Countries says where exits are, for requests that choose a country. It reads the table when the
// first one asks. After an error it tries again.
type Countries struct {
	Read func() (*geoip.Table, error)
	// Files says which files the table is of, with their sizes and times: other settings of the same files keep the table.
	// Empty: nobody knows.
	Files string

	mu    sync.Mutex
	table *geoip.Table // guarded by mu: nil until it was needed
}

// known reports whether the table was needed.
func (c *Countries) known() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table != nil
}

// same reports whether two have one table.
func (c *Countries) same(other *Countries) bool {
	return c != nil && other != nil && c.Files != "" && c.Files == other.Files
}

// read returns the table, which is read when it is needed first; nil: there is none.
func (c *Countries) read() *geoip.Table {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		t, err := c.Read()
		if err != nil {
			return nil // who chooses a country is told
		}
		c.table = t
	}
	return c.table
}

// exits returns the relays in a country; all, as the zero Set, if it is empty.
func (c *Countries) exits(country string) (path.Set, error) {
	if country == "" {
		return path.Set{}, nil
	}
	s, err := path.ParseSet([]string{"{" + country + "}"})
	if err != nil {
		return s, err
	}
	if c == nil {
		return s, fault.New(fault.Config, "nobody knows in which countries relays are")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		if c.table, err = c.Read(); err != nil {
			return s, err
		}
	}
	return s.WithCountries(c.table, false)
}

// checkCountry reports why no exit can be where a request wants it, whatever relays there are.
func (c *Client) checkCountry(req Request) error {
	if _, err := c.live.Load().Countries.exits(req.Key.Country); err != nil {
		return fault.New(fault.Config, "country of the exit: %w", err)
	}
	return nil
}

// errFamily is in the error of an exit that did not obey.
var errFamily = errors.New("the exit did not connect to an address of the family that was asked for")

// ofFamily judges the address to which an exit says that it has connected. One that says nothing
// may have connected to any.
func ofFamily(a netip.Addr, f stream.Family) error {
	if a = a.Unmap(); f == stream.IPv4Only && !a.Is4() || f == stream.IPv6Only && !a.Is6() {
		return fault.New(fault.Protocol, "dial: %w", errFamily)
	}
	return nil
}

// answersOf returns the answers to a lookup that are of a family, or those first that are.
func answersOf(all []stream.Answer, f stream.Family) ([]stream.Answer, error) {
	switch f {
	case stream.IPv4Only, stream.IPv6Only:
		all = slices.DeleteFunc(slices.Clone(all), func(a stream.Answer) bool { return ofFamily(a.Addr, f) != nil })
		if len(all) == 0 {
			return nil, fault.New(fault.Network, "resolve: %w", &net.DNSError{Err: "the host has no address of the family that was asked for", Name: "[scrubbed]", IsNotFound: true})
		}
	case stream.IPv6First:
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b stream.Answer) int { return cmp.Compare(b.Addr.BitLen(), a.Addr.BitLen()) })
	}
	return all, nil
}
