package netdoc

import (
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TimeFormat is the format of times in documents, in UTC.
const TimeFormat = "2006-01-02 15:04:05"

// need takes the next argument, and returns an error if there is none.
func (a *Args) need(what string) ([]byte, error) {
	w, ok := a.Next()
	if !ok {
		return nil, fault.New(fault.Directory, "no %s", what)
	}
	return w, nil
}

// uint takes a decimal number from 0 to limit.
func (a *Args) uint(what string, limit uint64) (uint64, error) {
	w, err := a.need(what)
	if err != nil {
		return 0, err
	}
	return parseUint(w, what, limit)
}

func parseUint(w []byte, what string, limit uint64) (uint64, error) {
	var v uint64
	if len(w) == 0 || len(w) > 19 {
		return 0, fault.New(fault.Directory, "%s %q is not a number up to %d", what, clip(w), limit)
	}
	for _, c := range w {
		if c < '0' || c > '9' {
			return 0, fault.New(fault.Directory, "%s %q is not a number", what, clip(w))
		}
		v = v*10 + uint64(c-'0')
	}
	if v > limit {
		return 0, fault.New(fault.Directory, "%s %d is above %d", what, v, limit)
	}
	return v, nil
}

// time takes a date and a time of day.
func (a *Args) time() (time.Time, error) {
	date, err := a.need("date")
	if err != nil {
		return time.Time{}, err
	}
	clock, err := a.need("time of day")
	if err != nil {
		return time.Time{}, err
	}
	return parseTime(date, clock)
}

// parseTime reads "YYYY-MM-DD" and "HH:MM:SS"; it replaces time.Parse, which is
// too slow for a line that occurs thousands of times in a consensus.
func parseTime(d, t []byte) (time.Time, error) {
	bad := func() (time.Time, error) {
		return time.Time{}, fault.New(fault.Directory, "%q is not a time", append(append(append([]byte(nil), clip(d)...), ' '), clip(t)...))
	}
	if len(d) != 10 || len(t) != 8 || d[4] != '-' || d[7] != '-' || t[2] != ':' || t[5] != ':' {
		return bad()
	}
	var n [6]int
	for i, p := range [6][]byte{d[:4], d[5:7], d[8:], t[:2], t[3:5], t[6:]} {
		for _, c := range p {
			if c < '0' || c > '9' {
				return bad()
			}
			n[i] = n[i]*10 + int(c-'0')
		}
	}
	if n[0] < 1970 || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 31 || n[3] > 23 || n[4] > 59 || n[5] > 60 {
		return bad()
	}
	when := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, time.UTC)
	if when.Add(-time.Duration(n[5]/60)*time.Second).Day() != n[2] { // a leap second becomes the first second of the next day
		return bad()
	}
	return when, nil
}

// base64 takes a base64 word, with or without padding, that decodes to
// exactly len(dst) bytes.
func (a *Args) base64(what string, dst []byte) error {
	w, err := a.need(what)
	if err != nil {
		return err
	}
	return decodeBase64(what, dst, w)
}

func decodeBase64(what string, dst, w []byte) error {
	for len(w) > 0 && w[len(w)-1] == '=' {
		w = w[:len(w)-1]
	}
	if base64.RawStdEncoding.DecodedLen(len(w)) != len(dst) {
		return fault.New(fault.Directory, "%s %q is not %d bytes of base64", what, clip(w), len(dst))
	}
	var buf [96]byte
	n, err := base64.RawStdEncoding.Decode(buf[:min(len(buf), len(dst))], w)
	if err != nil || n != len(dst) {
		return fault.New(fault.Directory, "%s %q is not %d bytes of base64", what, clip(w), len(dst))
	}
	copy(dst, buf[:n])
	return nil
}

// hex takes a hexadecimal word of exactly len(dst) bytes.
func (a *Args) hex(what string, dst []byte) error {
	w, err := a.need(what)
	if err != nil {
		return err
	}
	return decodeHex(what, dst, w)
}

func decodeHex(what string, dst, w []byte) error {
	if len(w) != 2*len(dst) {
		return fault.New(fault.Directory, "%s %q is not %d bytes of hexadecimal", what, clip(w), len(dst))
	}
	var buf [64]byte
	if _, err := hex.Decode(buf[:], w); err != nil {
		return fault.New(fault.Directory, "%s %q is not hexadecimal", what, clip(w))
	}
	copy(dst, buf[:])
	return nil
}

// addrPort takes ADDRESS:PORT, with an IPv6 address in brackets.
func (a *Args) addrPort() (netip.AddrPort, error) {
	w, err := a.need("address")
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(w) > 64 {
		return netip.AddrPort{}, fault.New(fault.Directory, "address %q", clip(w))
	}
	ap, err := netip.ParseAddrPort(string(w))
	if err != nil {
		return netip.AddrPort{}, fault.New(fault.Directory, "address: %w", err)
	}
	if ap.Addr().Zone() != "" {
		return netip.AddrPort{}, fault.New(fault.Directory, "address with a zone")
	}
	return ap, nil
}

// addr4 takes a dotted IPv4 address.
func (a *Args) addr4() (netip.Addr, error) {
	w, err := a.need("address")
	if err != nil {
		return netip.Addr{}, err
	}
	var b [4]byte
	field, digits := 0, 0
	v := 0
	for _, c := range w {
		switch {
		case c >= '0' && c <= '9' && digits < 3:
			v = v*10 + int(c-'0')
			digits++
		case c == '.' && digits > 0 && field < 3 && v < 256:
			b[field] = byte(v)
			field++
			v, digits = 0, 0
		default:
			return netip.Addr{}, fault.New(fault.Directory, "%q is not an IPv4 address", clip(w))
		}
	}
	if field != 3 || digits == 0 || v > 255 {
		return netip.Addr{}, fault.New(fault.Directory, "%q is not an IPv4 address", clip(w))
	}
	b[3] = byte(v)
	return netip.AddrFrom4(b), nil
}

func appendTime(dst []byte, t time.Time) []byte { return t.UTC().AppendFormat(dst, TimeFormat) }

// appendLine writes an item.
func appendLine(dst []byte, keyword string, words ...string) []byte {
	dst = append(dst, keyword...)
	for _, w := range words {
		dst = append(append(dst, ' '), w...)
	}
	return append(dst, '\n')
}

func itoa[T ~int | ~uint16 | ~uint32 | ~int32 | ~int64](v T) string {
	return strconv.FormatInt(int64(v), 10)
}
