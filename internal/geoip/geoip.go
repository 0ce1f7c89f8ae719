// Package geoip says in which country an address is, by files of C tor's form (tor(1),
// "GeoIPFile" and "GeoIPv6File"). Its table is a sorted list of the addresses at which the
// country changes: 6 bytes for each in IPv4 and 10 in IPv6, and no pointers.
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
	codes []string // of the countries; the first is Unknown

	four   []uint32 // where ranges of IPv4 addresses begin, ascending; the first is 0
	fourIs []uint16 // the country of each, an index of codes

	six    []uint64       // the upper halves of where ranges of IPv6 addresses begin
	sixLow map[int]uint64 // the lower halves that are not 0, which are few
	sixIs  []uint16
}

// newTable returns a table that knows no country.
func newTable() *Table {
	return &Table{codes: []string{Unknown}, four: []uint32{0}, fourIs: []uint16{0}, six: []uint64{0}, sixLow: map[int]uint64{}, sixIs: []uint16{0}}
}

// Country returns the code of an address's country, in small letters, or Unknown.
func (t *Table) Country(a netip.Addr) string {
	switch a = netaddr.Plain(a); {
	case a.Is4():
		b := a.As4()
		i, found := slices.BinarySearch(t.four, uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3]))
		if !found {
			i--
		}
		return t.codes[t.fourIs[i]]
	case a.Is6():
		return t.codes[t.sixIs[t.find(wide(a))]]
	}
	return Unknown
}

// find returns the index of the range that has an IPv6 address.
func (t *Table) find(at [2]uint64) int {
	lo, hi := 0, len(t.six) // the range is one of [lo, hi)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if t.six[mid] < at[0] || t.six[mid] == at[0] && t.sixLow[mid] <= at[1] {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
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

// wide returns an IPv6 address as two numbers.
func wide(a netip.Addr) [2]uint64 {
	b := a.As16()
	var w [2]uint64
	for i, x := range b {
		w[i/8] = w[i/8]<<8 | uint64(x)
	}
	return w
}

func compare(a, b [2]uint64) int {
	_, less := bits.Sub64(a[1], b[1], 0)
	_, less = bits.Sub64(a[0], b[0], less)
	switch {
	case less == 1:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// next returns the address after one; false: there is none.
func next(a [2]uint64) ([2]uint64, bool) {
	low, carry := bits.Add64(a[1], 1, 0)
	high, carry := bits.Add64(a[0], 0, carry)
	return [2]uint64{high, low}, carry == 0
}
