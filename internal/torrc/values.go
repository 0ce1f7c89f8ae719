package torrc

import (
	"net/netip"
	"strconv"
	"strings"

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

// Port reads a line such as ControlPort: an address in the form of Chive's ports, and the flags after it.
func Port(value string) (addr string, flags []string, err error) { return port(value) }

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
