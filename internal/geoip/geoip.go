// Package geoip says in which country an address is, by files of C tor's form (tor(1),
// "GeoIPFile" and "GeoIPv6File") or MaxMind databases (MMDB,
// https://maxmind.github.io/MaxMind-DB/). Its table is a sorted list of the addresses at which the
// country changes, of 3 or 4 bytes each.
package geoip

import (
	"math/bits"
	"net/netip"
	"slices"

	"github.com/chivenet/chive/internal/netaddr"
)

// The files of Debian's package tor-geoipdb, and of C tor where it is built for /usr.
const (
	UsualFile  = "/usr/share/tor/geoip"
	UsualFile6 = "/usr/share/tor/geoip6"
)

// Unknown is the code of addresses whose country nobody knows.
const Unknown = "??"

// Table knows the countries of addresses. It does not change, and may be used from any
// goroutine.
type Table struct {
	codes     []string // of the countries; the first is Unknown
	four, six ranges
}

// Country returns the code of an address's country, in small letters, or Unknown.
func (t *Table) Country(a netip.Addr) string {
	switch a = netaddr.Plain(a); {
	case a.Is4():
		b := a.As4()
		return t.codes[t.four.of(at4(uint64(b[0])<<24|uint64(b[1])<<16|uint64(b[2])<<8|uint64(b[3])))]
	case a.Is6():
		return t.codes[t.six.of(wide(a))]
	}
	return Unknown
}

// Of returns the country of a relay with these addresses: that of its IPv4 address, as C
// tor has it, or else that of its IPv6 address.
func (t *Table) Of(four, six netip.Addr) string {
	if c := t.Country(four); c != Unknown || !six.IsValid() {
		return c
	}
	return t.Country(six)
}

// Knows reports whether any address is in a country, or the code is Unknown.
func (t *Table) Knows(code string) bool { return slices.Contains(t.codes, code) }

// at4 returns where an IPv4 address is among ranges: a /24 begins at a round number.
func at4(n uint64) at { return at{n << 8, 0} }

// wide returns an IPv6 address as two numbers.
func wide(a netip.Addr) (w at) {
	for i, x := range a.As16() {
		w[i/8] = w[i/8]<<8 | uint64(x)
	}
	return w
}

// next6 returns the address after one; false: there is none.
func next6(a at) (at, bool) {
	low, carry := bits.Add64(a[1], 1, 0)
	high, carry := bits.Add64(a[0], 0, carry)
	return at{high, low}, carry == 0
}

// next4 is next6 for an IPv4 address.
func next4(a at) (at, bool) { return at{a[0] + 1<<8, 0}, a != at4(1<<32-1) }
