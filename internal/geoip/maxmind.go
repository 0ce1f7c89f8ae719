package geoip

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
	"github.com/oschwald/maxminddb-golang/v2/mmdbdata"

	"github.com/chivenet/chive/internal/fault"
)

// The bounds of a MaxMind database, beside MaxSize. It is read into memory as a whole and let go
// when its countries are in the table. It is not mapped: who cuts a mapped file short ends
// the process.
const (
	maxRecords = 1 << 20 // different records; a database of cities has fewer
	maxValues  = 1 << 25 // values in records before those that are wanted; in one of cities, 20 a record
	maxDepth   = 16      // containers around a value
	maxWays    = 5       // ways to a network: the IPv4 addresses may also be below ::ffff:0:0/96, 2001::/32 and 2002::/16
)

// errNoDatabase is about files that are neither text nor a MaxMind database.
var errNoDatabase = fault.New(fault.Config, "it is neither a file of C tor's form, as in Debian's tor-geoipdb, nor a MaxMind database (MMDB)")

// isText reports whether a file begins with lines of text. A MaxMind database does not: its
// first bytes are the number of a node, and most of them are 0.
func isText(r *bufio.Reader) (bool, error) {
	b, err := r.Peek(maxPart)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	whole := err != nil
	return bytes.IndexByte(b, 0) < 0 && (whole || bytes.IndexByte(b, '\n') >= 0), nil
}

// database is a MaxMind database whose tree has been checked.
type database struct {
	*maxminddb.Reader
	records *mmdbdata.Decoder
}

// openMaxMind reads a MaxMind database and checks the tree of its networks.
func openMaxMind(r io.Reader) (*database, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	end := bytes.LastIndex(data, []byte("\xab\xcd\xefMaxMind.com"))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxSize:
		return nil, errTooLarge
	case end < 0:
		return nil, errNoDatabase
	}
	db, err := maxminddb.OpenBytes(data, maxminddb.DisableStringCache())
	if err != nil {
		return nil, fmt.Errorf("MaxMind database: %w", err)
	}
	m := db.Metadata
	if m.BinaryFormatMajorVersion != 2 || m.IPVersion != 4 && m.IPVersion != 6 {
		return nil, fmt.Errorf("MaxMind database of version %d for IPv%d: version 2 for IPv4 or IPv6 is read", m.BinaryFormatMajorVersion, m.IPVersion)
	}
	// A tree in which few nodes lead to each other has more networks than anybody can count.
	// After this, a walk that leaves out aliases ends too.
	left := maxWays * (uint64(m.NodeCount) + 1)
	for n := range db.Networks(maxminddb.IncludeAliasedNetworks(), maxminddb.IncludeNetworksWithoutData()) {
		if err := n.Err(); err != nil {
			return nil, fmt.Errorf("MaxMind database: %w", err)
		}
		if left--; left == 0 {
			return nil, errors.New("MaxMind database: its tree has loops, or too many ways to one network")
		}
	}
	begin := m.NodeCount*m.RecordSize/4 + 16 // OpenBytes has seen that it is before the end
	return &database{db, mmdbdata.NewDecoder(data[begin:end], 0)}, nil
}

// maxmind adds the networks of a MaxMind database that are of a family. found: one of them is in
// a country.
func (b *builder) maxmind(db *database, f family) (found bool, err error) {
	if f.all.Addr().Is6() && db.Metadata.IPVersion != 6 {
		return false, fmt.Errorf("the MaxMind database (type %.40q) has only IPv4 addresses", db.Metadata.DatabaseType)
	}
	c := countries{b: b, records: db.records, seen: map[uintptr]uint16{}, left: maxValues}
	var free at
	full := false
	for n := range db.NetworksWithin(f.all) {
		p := n.Prefix()
		if err := n.Err(); err != nil {
			return false, fmt.Errorf("MaxMind database: %s: %w", p, err)
		}
		if p.Bits() <= 96 && p.Contains(zero6) && f.all.Addr().Is4() {
			p = f.all // one country for all IPv4 addresses, and some of IPv6
		}
		if p.Addr().Is4() != f.all.Addr().Is4() {
			continue
		}
		is, err := c.of(n.Offset())
		if err != nil {
			return false, fmt.Errorf("MaxMind database (type %.40q): %s: %w", db.Metadata.DatabaseType, p, err)
		}
		from, to := span(p)
		if full || from.compare(free) < 0 {
			return false, fmt.Errorf("MaxMind database: the network %s does not come after the one before", p)
		}
		found = found || is != 0
		if from.compare(free) > 0 {
			f.to.add(free, 0)
		}
		f.to.add(from, is)
		var more bool
		free, more = f.next(to)
		full = !more
	}
	if !full {
		f.to.add(free, 0)
	}
	return found, nil
}

var zero6 = netip.IPv6Unspecified()

// span returns the first and the last address of a network.
func span(p netip.Prefix) (from, to at) {
	if p.Addr().Is4() {
		a := p.Addr().As4()
		n := uint64(a[0])<<24 | uint64(a[1])<<16 | uint64(a[2])<<8 | uint64(a[3])
		return at4(n), at4(n | (1<<(32-p.Bits()) - 1))
	}
	from = wide(p.Addr())
	to = from
	for i := p.Bits(); i < 128; i++ {
		to[i/64] |= 1 << (63 - i%64)
	}
	return from, to
}

// countries reads the records of a database, each once.
type countries struct {
	b       *builder
	records *mmdbdata.Decoder
	seen    map[uintptr]uint16 // the country of a record
	left    int                // values that may still be skipped
}

// errRecords is about what a database of countries does not have.
var errRecords = errors.New("its records are too many, too large or in each other: give a database of countries, such as GeoLite2-Country")

// of returns the index of the country of a record; 0: it names none. MaxMind's form is
// {"country": {"iso_code": "DE"}}.
func (c *countries) of(record uintptr) (uint16, error) {
	if is, ok := c.seen[record]; ok {
		return is, nil
	}
	if len(c.seen) == maxRecords {
		return 0, errRecords
	}
	v, found, err := c.value(c.records.CursorAt(uint(record)), "country")
	if err == nil && found {
		v, found, err = c.value(v, "iso_code")
	}
	is := uint16(0)
	if err == nil && found {
		var code string
		if code, _, err = v.ReadStringMaxSize(16); err == nil && code != "" {
			is, err = c.b.code(code)
		}
	}
	c.seen[record] = is
	return is, err
}

// value returns what a map has for a key. It looks no further than that.
func (c *countries) value(of mmdbdata.Cursor, key string) (v mmdbdata.Cursor, found bool, err error) {
	m, err := of.MapReader()
	next := m.First()
	for i := uint(0); err == nil && i < m.Len(); i++ {
		var k []byte
		if k, v, err = next.ReadMapKey(); err != nil || string(k) == key {
			return v, err == nil, err
		}
		next, err = c.skip(v, 0)
	}
	return v, false, err
}

// skip returns where the value after one is. The library's Skip would do this for a container of any
// size, and say nothing of its work.
func (c *countries) skip(v mmdbdata.Cursor, depth int) (next mmdbdata.Cursor, err error) {
	if c.left--; c.left < 0 || depth > maxDepth {
		return v, errRecords
	}
	switch kind, err := v.Kind(); {
	case err != nil:
		return v, err
	case kind == mmdbdata.KindMap:
		m, err := v.MapReader()
		next = m.First()
		for i := uint(0); err == nil && i < m.Len(); i++ {
			if _, next, err = next.ReadMapKey(); err == nil {
				next, err = c.skip(next, depth+1)
			}
		}
		if err != nil {
			return v, err
		}
		return m.End(next)
	case kind == mmdbdata.KindSlice:
		s, err := v.Slice()
		for err == nil {
			_, item, ok := s.Next(next)
			if !ok {
				return s.End()
			}
			next, err = c.skip(item, depth+1)
		}
		return v, err
	}
	return v.Skip()
}
