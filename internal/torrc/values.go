package torrc

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Bool reads 0 or 1.
func Bool(s string) (bool, error) {
	switch s {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fault.New(fault.Config, "%q is neither 0 nor 1", s)
}

// Interval reads a number and an optional unit, such as "10 minutes".
func Interval(s string) (time.Duration, error) {
	number, unit := numberAndUnit(s)
	u, ok := map[string]time.Duration{
		"msec": time.Millisecond, "millisecond": time.Millisecond,
		"": time.Second, "second": time.Second, "sec": time.Second,
		"minute": time.Minute, "min": time.Minute, "hour": time.Hour, "hr": time.Hour,
		"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 2629728 * time.Second,
	}[unit]
	v, err := strconv.ParseFloat(number, 64) // "1.5 hours" is one
	if err != nil || !ok || v < 0 || v >= 1<<31 || v*float64(u) >= 1<<62 {
		return 0, fault.New(fault.Config, "%q is not a time", s)
	}
	return time.Duration(v * float64(u)).Truncate(min(u, time.Second)), nil
}

// Bytes reads a number and an optional unit, such as "1 MByte" or "8 kbits".
func Bytes(s string) (uint64, error) {
	number, unit := numberAndUnit(s)
	u, ok := map[string]float64{
		"": 1, "b": 1, "byte": 1, "bit": 1.0 / 8,
		"kb": 1 << 10, "kbyte": 1 << 10, "kilobyte": 1 << 10, "kbit": 1 << 7, "kilobit": 1 << 7,
		"m": 1 << 20, "mb": 1 << 20, "mbyte": 1 << 20, "megabyte": 1 << 20, "mbit": 1 << 17, "megabit": 1 << 17,
		"gb": 1 << 30, "gbyte": 1 << 30, "gigabyte": 1 << 30, "gbit": 1 << 27, "gigabit": 1 << 27,
		"tb": 1 << 40, "tbyte": 1 << 40, "terabyte": 1 << 40, "tbit": 1 << 37, "terabit": 1 << 37,
	}[unit]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || v < 0 || v*u >= 1<<62 {
		return 0, fault.New(fault.Config, "%q is not a number of bytes", s)
	}
	return uint64(v * u), nil
}

// numberAndUnit splits "10 MBytes" and "10MB"; the unit is small and singular.
func numberAndUnit(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return s, ""
	}
	unit = strings.ToLower(strings.TrimSpace(s[i:]))
	if len(unit) > 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return s[:i], unit
}

// unixPath reads a path, perhaps in quotes, and returns what follows it.
func unixPath(s string) (path, after string) {
	if inside, ok := strings.CutPrefix(s, `"`); ok {
		path, after, _ = strings.Cut(inside, `"`)
		return path, after
	}
	path, after, _ = strings.Cut(s, " ")
	return path, after
}

// numeric replaces localhost, the one name that needs no resolver.
func numeric(addr string) string {
	host, port, ok := strings.Cut(addr, ":")
	switch {
	case !strings.EqualFold(host, "localhost"):
		return addr
	case !ok:
		return "127.0.0.1"
	}
	return "127.0.0.1:" + port
}

// list splits entries between commas and white space.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// port is the first word of a line such as SocksPort, and its flags.
func port(s string) (addr string, flags []string, err error) {
	f := strings.Fields(s)
	if len(f) == 0 {
		return "", nil, fault.New(fault.Config, "no port")
	}
	addr, flags = numeric(f[0]), f[1:]
	if rest, ok := strings.CutPrefix(strings.TrimSpace(s), "unix:"); ok {
		path, after := unixPath(rest)
		return "unix:" + path, strings.Fields(after), nil
	}
	if strings.EqualFold(addr, "auto") {
		return "127.0.0.1:0", flags, nil
	}
	if i := strings.LastIndexByte(addr, ':'); i > 0 && strings.EqualFold(addr[i+1:], "auto") {
		addr = addr[:i] + ":0"
	}
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		return addr, flags, nil
	}
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return "", nil, fault.New(fault.Config, "%q is neither PORT nor IP:PORT nor unix:PATH", addr)
	}
	return addr, flags, nil
}
