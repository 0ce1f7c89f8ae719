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

// The bounds of a file. Both of Debian's tor-geoipdb together have 25 MB.
const (
	MaxSize = 64 << 20 // bytes
	maxPart = 32 << 10 // bytes of lines that are read at once, and of a line
)

// Source is a file's name, for errors, and its text.
type Source struct {
	Name string
	Text io.Reader // nil: there is no such file
}

// errBinary is about files of other forms. A library for MMDB would add 0.24 MB to
// bin/chive (oschwald/maxminddb-golang v2.9.0), which has no room for it.
var errBinary = fault.New(fault.Config, "it is no text: give a file of C tor's form, as in Debian's tor-geoipdb; the form of MaxMind (MMDB) is not read")

// Parse makes a table of a file for IPv4 and one for IPv6. Their lines are
// LOW,HIGH,CC in ascending order, with comments after "#" at a line's beginning. IPv4
// addresses are decimal numbers, and may be in quotes, with more fields behind.
func Parse(four, six Source) (*Table, error) {
	b := &builder{t: newTable(), index: map[string]uint16{Unknown: 0}}
	for _, f := range []struct {
		Source
		number func(string) ([2]uint64, error)
		add    func(at [2]uint64, is uint16)
		last   [2]uint64
	}{
		{four, number4, b.add4, [2]uint64{0, 1<<32 - 1}},
		{six, number6, b.add6, [2]uint64{1<<64 - 1, 1<<64 - 1}},
	} {
		if f.Text == nil {
			continue
		}
		if line, err := b.read(f.Text, f.number, f.add, f.last); err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %w", f.Name, line, err)
		}
	}
	t := b.t
	t.four, t.fourIs, t.six, t.sixIs = exact(t.four), exact(t.fourIs), exact(t.six), exact(t.sixIs)
	return t, nil
}

// exact returns a copy without room for more.
func exact[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }

type builder struct {
	t     *Table
	index map[string]uint16 // of each code
}

// read adds the ranges of a file. On an error it returns the number of the line.
func (b *builder) read(r io.Reader, number func(string) ([2]uint64, error), add func([2]uint64, uint16), end [2]uint64) (line int, err error) {
	text := bufio.NewScanner(io.LimitReader(r, MaxSize+1))
	text.Buffer(make([]byte, 0, maxPart), maxPart)
	text.Split(wholeLines)
	var free [2]uint64 // the first address that no range has
	full, size := false, 0
	for text.Scan() {
		if size += len(text.Bytes()); size > MaxSize {
			return line, fault.New(fault.Config, "the file has more than %d bytes", MaxSize)
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
			from, err := number(low)
			if err != nil {
				return line, err
			}
			to, err := number(high)
			switch {
			case err != nil:
				return line, err
			case compare(to, from) < 0:
				return line, errors.New("the range ends before it begins")
			case full || compare(from, free) < 0:
				return line, errors.New("the range does not come after the one before")
			}
			is, err := b.code(country)
			if err != nil {
				return line, err
			}
			if compare(from, free) > 0 {
				add(free, 0)
			}
			add(from, is)
			if full = to == end; !full {
				free, _ = next(to)
			}
		}
	}
	if err := text.Err(); errors.Is(err, bufio.ErrTooLong) {
		return line + 1, errBinary
	} else if err != nil {
		return line + 1, err
	}
	if !full {
		add(free, 0)
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

// add4 notes that a range begins, unless its country is that of the addresses before.
func (b *builder) add4(at [2]uint64, is uint16) {
	t := b.t
	if at[1] == 0 {
		t.four, t.fourIs = t.four[:0], t.fourIs[:0]
	} else if t.fourIs[len(t.fourIs)-1] == is {
		return
	}
	t.four, t.fourIs = append(t.four, uint32(at[1])), append(t.fourIs, is)
}

// add6 is add4 for IPv6.
func (b *builder) add6(at [2]uint64, is uint16) {
	t := b.t
	if at == [2]uint64{} {
		t.six, t.sixIs = t.six[:0], t.sixIs[:0]
	} else if t.sixIs[len(t.sixIs)-1] == is {
		return
	}
	if at[1] != 0 {
		t.sixLow[len(t.six)] = at[1]
	}
	t.six, t.sixIs = append(t.six, at[0]), append(t.sixIs, is)
}

func number4(s string) ([2]uint64, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return [2]uint64{}, fmt.Errorf("%.40q is not an IPv4 address as a number", s)
	}
	return [2]uint64{0, n}, nil
}

func number6(s string) ([2]uint64, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return [2]uint64{}, fmt.Errorf("%.40q is not an IPv6 address", s)
	}
	return wide(a), nil
}
