package geoip

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// The bounds of a file. Both of Debian's tor-geoipdb together have 25 MB; MaxMind's
// GeoLite2-Country has about 10.
const (
	MaxSize = 64 << 20 // bytes
	maxPart = 32 << 10 // bytes of lines that are read at once, and of a line
)

// Source is a file's name, for errors, and its bytes.
type Source struct {
	Name  string
	Text  io.Reader // nil: there is no such file
	Usual bool      // nobody chose it
}

// errBinary is about a file that begins as text does.
var errBinary = fault.New(fault.Config, "it is no text: give a file of C tor's form, as in Debian's tor-geoipdb, or a MaxMind database (MMDB)")

var errTooLarge = fault.New(fault.Config, "the file has more than %d bytes", MaxSize)

// Parse makes a table of a file for IPv4 and one for IPv6. Each is of C tor's form or a MaxMind
// database; what it has inside says which. A database for IPv4 that also has IPv6 addresses
// replaces the usual file for IPv6.
//
// The lines of C tor's form are LOW,HIGH,CC in ascending order, with comments after "#" at
// a line's beginning. IPv4 addresses are decimal numbers, and may be in quotes, with more
// fields behind.
func Parse(four, six Source) (*Table, error) {
	t := &Table{codes: []string{Unknown}}
	b := &builder{t: t, index: map[string]uint16{Unknown: 0}}
	v4 := family{&t.four, number4, next4, netip.MustParsePrefix("0.0.0.0/0")}
	v6 := family{&t.six, number6, next6, netip.MustParsePrefix("::/0")}
	db, err := b.file(four, v4)
	if err != nil {
		return nil, err
	}
	both := false
	if db != nil && db.Metadata.IPVersion == 6 && (six.Usual || six.Text == nil) {
		if both, err = b.maxmind(db, v6); err != nil {
			return nil, fault.New(fault.Config, "%s: %w", four.Name, err)
		}
	}
	if !both {
		t.six = ranges{}
		if _, err = b.file(six, v6); err != nil {
			return nil, err
		}
	}
	t.four.exact()
	t.six.exact()
	return t, nil
}

// file adds the ranges of a file, and returns it if it is a MaxMind database.
func (b *builder) file(s Source, f family) (*database, error) {
	if s.Text == nil {
		s.Text = strings.NewReader("")
	}
	r := bufio.NewReaderSize(s.Text, maxPart)
	text, err := isText(r)
	if err == nil && text {
		line, err := b.read(r, f)
		if err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %w", s.Name, line, err)
		}
		return nil, nil
	}
	var db *database
	var found bool
	if err == nil {
		db, err = openMaxMind(r)
	}
	if err == nil {
		found, err = b.maxmind(db, f)
	}
	if err == nil && !found {
		err = fmt.Errorf("the MaxMind database (type %.40q) has no country of such an address: give one of countries, such as GeoLite2-Country", db.Metadata.DatabaseType)
	}
	if err != nil {
		return nil, fault.New(fault.Config, "%s: %w", s.Name, err)
	}
	return db, nil
}

// family is what differs between IPv4 and IPv6.
type family struct {
	to     *ranges
	number func(string) (at, error)
	next   func(at) (at, bool) // false: it is the last address
	all    netip.Prefix
}

type builder struct {
	t     *Table
	index map[string]uint16 // of each code
}

// read adds the ranges of a file. On an error it returns the number of the line.
func (b *builder) read(r io.Reader, f family) (line int, err error) {
	text := bufio.NewScanner(io.LimitReader(r, MaxSize+1))
	text.Buffer(make([]byte, 0, maxPart), maxPart)
	text.Split(wholeLines)
	var free at // the first address that no range has
	full, size := false, 0
	for text.Scan() {
		if size += len(text.Bytes()); size > MaxSize {
			return line, errTooLarge
		}
		if bytes.IndexByte(text.Bytes(), 0) >= 0 {
			return line + 1, errBinary
		}
		for s := range strings.Lines(text.Text()) {
			line++
			low, high, country, ok, err := split(strings.TrimSpace(s))
			if err != nil {
				return line, err
			}
			if !ok {
				continue
			}
			from, err := f.number(low)
			if err != nil {
				return line, err
			}
			to, err := f.number(high)
			switch {
			case err != nil:
				return line, err
			case to.compare(from) < 0:
				return line, errors.New("the range ends before it begins")
			case full || from.compare(free) < 0:
				return line, errors.New("the range does not come after the one before")
			}
			is, err := b.code(country)
			if err != nil {
				return line, err
			}
			if from.compare(free) > 0 {
				f.to.add(free, 0)
			}
			f.to.add(from, is)
			var more bool
			free, more = f.next(to)
			full = !more
		}
	}
	if err := text.Err(); errors.Is(err, bufio.ErrTooLong) {
		return line + 1, errBinary
	} else if err != nil {
		return line + 1, err
	}
	if !full {
		f.to.add(free, 0)
	}
	return line, nil
}

// wholeLines splits a file into parts of many lines.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if len(data) == 0 {
		return 0, nil, nil
	}
	if atEOF {
		return len(data), data, nil
	}
	n := bytes.LastIndexByte(data, '\n') + 1
	if n == 0 {
		return 0, nil, nil
	}
	return n, data[:n], nil
}

// split returns the fields of a line; false: it is a comment, or empty.
func split(s string) (low, high, country string, ok bool, err error) {
	if s == "" || s[0] == '#' {
		return "", "", "", false, nil
	}
	low, rest, one := strings.Cut(s, ",")
	high, country, two := strings.Cut(rest, ",")
	if s[0] == '"' {
		country, _, _ = strings.Cut(country, ",")
		low, high, country = strings.Trim(low, `"`), strings.Trim(high, `"`), strings.Trim(country, `"`)
	}
	if !one || !two || strings.Contains(country, ",") {
		return "", "", "", false, errors.New("it is not LOW,HIGH,CC")
	}
	return low, high, country, true, nil
}

// code returns the index of a country.
func (b *builder) code(s string) (uint16, error) {
	if i, ok := b.index[s]; ok {
		return i, nil
	}
	c, err := Code(s)
	if err != nil {
		return 0, err
	}
	i, ok := b.index[c]
	if !ok {
		i = uint16(len(b.t.codes)) // there are 36*36 codes and Unknown
		b.t.codes = append(b.t.codes, c)
		b.index[c] = i
	}
	b.index[strings.Clone(s)] = i
	return i, nil
}

// Code checks a country's code, two letters or digits or Unknown, and returns it in
// small letters.
func Code(s string) (string, error) {
	if s == Unknown {
		return Unknown, nil
	}
	if len(s) != 2 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		return "", fault.New(fault.Config, "%.20q is not the code of a country", s)
	}
	return strings.Clone(strings.ToLower(s)), nil
}

func number4(s string) (at, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return at{}, fmt.Errorf("%.40q is not an IPv4 address as a number", s)
	}
	return at4(n), nil
}

func number6(s string) (at, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return at{}, fmt.Errorf("%.40q is not an IPv6 address", s)
	}
	return wide(a), nil
}
