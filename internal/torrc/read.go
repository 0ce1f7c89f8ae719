package torrc

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/quantity"
)

// The functions here turn an option's value into values of Chive's. No value and no
// note: nothing needs to be set. A note says what is lost.

func yesNo(s string) ([]string, string, error) {
	b, err := Bool(s)
	return []string{strconv.FormatBool(b)}, "", err
}

func noYes(s string) ([]string, string, error) {
	b, err := Bool(s)
	return []string{strconv.FormatBool(!b)}, "", err
}

func onOff(s string) ([]string, string, error) {
	if strings.EqualFold(s, "auto") {
		return []string{"auto"}, "", nil
	}
	b, err := Bool(s)
	if b {
		return []string{"on"}, "", err
	}
	return []string{"off"}, "", err
}

func connectionPadding(s string) ([]string, string, error) {
	switch strings.ToLower(s) {
	case "0":
		return []string{"off"}, "", nil
	case "1", "auto":
		return []string{"auto"}, "", nil
	}
	return nil, "", fault.New(fault.Config, "%q is not 0, 1 or auto", s)
}

func reducedPadding(s string) ([]string, string, error) {
	if b, err := Bool(s); err != nil || !b {
		return nil, "", err
	}
	return []string{"reduced"}, "", nil
}

func vanguardsLite(s string) ([]string, string, error) {
	switch strings.ToLower(s) {
	case "0":
		return []string{"off"}, "", nil
	case "1":
		return []string{"lite"}, "", nil
	case "auto":
		return []string{"auto"}, "", nil
	}
	return nil, "", fault.New(fault.Config, "%q is not 0, 1 or auto", s)
}

func sandbox(s string) ([]string, string, error) {
	if b, err := Bool(s); err != nil || !b {
		return nil, "", err
	}
	return []string{"auto"}, "", nil
}

func interval(s string) ([]string, string, error) {
	d, err := quantity.Interval(s)
	return []string{d.String()}, "", err
}

func buildTimeout(s string) ([]string, string, error) {
	values, _, err := interval(s)
	return values, "C tor goes on to learn, unless LearnCircuitBuildTimeout is 0", err
}

func byteCount(s string) ([]string, string, error) {
	n, err := quantity.Bytes(s)
	if n == 0 {
		return nil, "", err
	}
	return []string{strconv.FormatUint(n, 10)}, "", err
}

// source reads a source address; C tor takes that of no machine for none.
func source(s string) ([]string, string, error) {
	if s == "0.0.0.0" || strings.Trim(s, "[]") == "::" {
		return nil, "", nil
	}
	a, err := netaddr.ParseSource(s)
	if err != nil {
		return nil, "", fault.Wrap(fault.Config, err)
	}
	return []string{a.String()}, "", nil
}

func smallWord(s string) ([]string, string, error) { return []string{strings.ToLower(s)}, "", nil }

func names(s string) ([]string, string, error) { return list(s), "", nil }

func words(s string) ([]string, string, error) { return strings.Fields(s), "", nil }

func metricsPort(s string) ([]string, string, error) {
	addr, flags, err := port(s)
	note := ""
	if len(flags) > 0 {
		note = "without " + strings.Join(flags, " ")
	}
	if err == nil && !strings.Contains(addr, ":") {
		addr = "127.0.0.1:" + addr
	}
	return []string{addr}, note, err
}

// portFlags are the flags of each option of a proxy's ports that Chive's ports have
// too, in small letters and without "no".
var portFlags = map[string][]string{
	"socks": {"isolateclientaddr", "isolateclientprotocol", "isolatedestaddr", "isolatedestport", "isolatesocksauth", "keepaliveisolatesocksauth",
		"ipv4traffic", "ipv6traffic", "dnsrequest", "oniontraffic", "oniontrafficonly", "preferipv6", "prefersocksnoauth", "extendederrors", "groupwritable", "worldwritable"},
	"http": {"isolateclientaddr", "isolateclientprotocol", "isolatedestaddr", "isolatedestport", "isolatesocksauth", "keepaliveisolatesocksauth",
		"ipv4traffic", "ipv6traffic", "dnsrequest", "oniontraffic", "oniontrafficonly", "preferipv6", "groupwritable", "worldwritable"},
	"dns":   {"isolateclientaddr", "isolateclientprotocol", "isolatedestaddr", "isolatedestport"},
	"trans": {"isolateclientaddr", "isolateclientprotocol", "isolatedestaddr", "isolatedestport", "ipv4traffic", "ipv6traffic"},
}

// noCache are flags that say what Chive always does: a client keeps no addresses of
// names.
var noCache = []string{"nocachedns", "nocacheipv4dns", "nocacheipv6dns", "nousednscache", "nouseipv4cache", "nouseipv6cache", "relaxdirmodecheck", "norelaxdirmodecheck"}

// whyNoFlag says of a flag that Chive's ports do not have why that is so.
func whyNoFlag(w string) string {
	switch {
	case strings.Contains(w, "cache"):
		return ", because a client keeps no addresses of names"
	case strings.HasSuffix(w, "automap"):
		return ", because a SOCKS lookup of a name that is mapped gets an IPv4 address"
	}
	return ""
}

func socksPort(s string) ([]string, string, error) {
	if f := strings.Fields(s); len(f) > 0 && f[0] == "0" {
		return []string{""}, "", nil // the default is a port
	}
	return localPort("socks", s)
}

func httpPort(s string) ([]string, string, error)  { return localPort("http", s) }
func dnsPort(s string) ([]string, string, error)   { return localPort("dns", s) }
func transPort(s string) ([]string, string, error) { return localPort("trans", s) }

// localPort keeps the flags that the kind of port has.
func localPort(kind, s string) ([]string, string, error) {
	addr, flags, err := port(s)
	if err != nil || addr == "0" {
		return nil, "", err
	}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok && strings.ContainsAny(path, " \t") {
		addr = `unix:"` + path + `"`
	}
	var lost []string
	for _, f := range flags {
		w := strings.ToLower(f)
		if strings.HasPrefix(strings.TrimPrefix(w, "no"), "isolate") { // C tor takes plurals too
			w, f = strings.TrimSuffix(w, "s"), strings.TrimRight(f, "sS")
		}
		switch {
		case strings.HasPrefix(w, "sessiongroup="), slices.Contains(portFlags[kind], strings.TrimPrefix(w, "no")):
			addr += " " + f
		case !slices.Contains(noCache, w):
			lost = append(lost, f+whyNoFlag(w))
		}
	}
	note := ""
	if len(lost) > 0 {
		note = "without the port's " + strings.Join(lost, ", ")
	}
	return []string{addr}, note, nil
}

func transType(s string) ([]string, string, error) {
	switch strings.ToLower(s) {
	case "default":
		return []string{"redirect"}, "", nil
	case "tproxy":
		return []string{"tproxy"}, "", nil
	}
	return nil, "only REDIRECT and TPROXY of Linux are there", nil
}

// What is to do about the flags of an ORPort, unless an Address says already where others reach
// the relay.
const (
	whyNoListen    = "an ORPort that others reach and that is not listened at: set `address` to it"
	whyNoAdvertise = "set `address` to where others reach this port"
)

func orPort(s string) ([]string, string, error) {
	addr, flags, err := allAddresses(s)
	if err != nil || addr == "0" {
		return nil, "", err
	}
	note, lost := "", []string(nil)
	for _, f := range flags {
		switch strings.ToLower(f) {
		case "nolisten":
			return nil, whyNoListen, nil
		case "noadvertise":
			note = whyNoAdvertise
		case "ipv4only":
		case "ipv6only":
			if rest, ok := strings.CutPrefix(addr, "0.0.0.0:"); ok {
				addr = "[::]:" + rest
			} else if !strings.Contains(addr, ":") {
				addr = "[::]:" + addr
			}
		default:
			lost = append(lost, f)
		}
	}
	if len(lost) > 0 {
		note = "without the port's " + strings.Join(lost, ", ")
	}
	return []string{addr}, note, nil
}

// allAddresses is port for an option whose port alone means one at all addresses.
func allAddresses(s string) (addr string, flags []string, err error) {
	if f := strings.Fields(s); len(f) > 0 && strings.EqualFold(f[0], "auto") {
		return "0.0.0.0:0", f[1:], nil
	}
	return port(s)
}

func dirPort(s string) ([]string, string, error) {
	addr, flags, err := allAddresses(s)
	if err != nil || addr == "0" {
		return nil, "", err
	}
	if !strings.Contains(addr, ":") {
		addr = "0.0.0.0:" + addr
	}
	note := ""
	for _, f := range flags {
		if strings.EqualFold(f, "NoListen") {
			return nil, "a DirPort that others reach and that is not listened at", nil
		}
		note = "without the port's " + f
	}
	return []string{addr}, note, nil
}

func address(s string) ([]string, string, error) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		if strings.ContainsAny(s, ": \t") || s == "" {
			return nil, "", fault.New(fault.Config, "%q is neither an IP address nor a name", s)
		}
		return []string{s}, "", nil
	}
	return []string{a.String()}, "", nil
}

func policy(s string) ([]string, string, error) {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out, "", nil
}

// oneList is a list of which a line is one entry.
func oneList(s string) ([]string, string, error) {
	entries, _, _ := policy(s)
	if len(entries) == 0 {
		return nil, "", nil
	}
	return []string{strings.Join(entries, ",")}, "", nil
}

// suffixes reads AutomapHostsSuffixes. C tor's own default has .exit, whose names Chive refuses.
func suffixes(s string) ([]string, string, error) {
	all, note, err := policy(s)
	kept := slices.DeleteFunc(all, func(s string) bool { return strings.EqualFold(s, ".exit") })
	if len(kept) < len(all) {
		note = "without .exit, because names that choose an exit are refused"
	}
	return kept, note, err
}

// OnionPort reads "VIRTPORT TARGET", as HiddenServicePort has it, of which the target may be missing, and returns
// "PORT=TARGET".
func OnionPort(s string) (string, error) {
	values, note, err := onionPort(s)
	if err == nil && note != "" {
		err = fault.New(fault.Config, "%s", note)
	}
	if err != nil {
		return "", err
	}
	return values[0], nil
}

// onionPort reads VIRTPORT [TARGET].
func onionPort(s string) ([]string, string, error) {
	virtual, at, _ := strings.Cut(strings.TrimSpace(s), " ")
	if !isPort(virtual) {
		return nil, "", fault.New(fault.Config, "%q is no port from 1 to 65535", virtual)
	}
	if at = strings.TrimSpace(at); strings.HasPrefix(at, "unix:") {
		path, _ := unixPath(strings.TrimPrefix(at, "unix:"))
		if !strings.HasPrefix(path, "/") {
			return nil, "the path of a socket must be absolute", nil
		}
		return []string{virtual + "=unix:" + path}, "", nil
	}
	if strings.ContainsAny(at, " \t") {
		return nil, "", fault.New(fault.Config, "%q is not a port and a target", s)
	}
	target := numeric(at)
	switch _, err := netip.ParseAddr(strings.Trim(target, "[]")); {
	case target == "":
		target = "127.0.0.1:" + virtual
	case err == nil && strings.Contains(target, ":"):
		target = "[" + strings.Trim(target, "[]") + "]:" + virtual
	case err == nil:
		target += ":" + virtual
	case !strings.Contains(target, ":"):
		target = "127.0.0.1:" + target
	}
	host, port := target[:strings.LastIndexByte(target, ':')], target[strings.LastIndexByte(target, ':')+1:]
	if !isPort(port) {
		return nil, "", fault.New(fault.Config, "%q is not a port, an address or both", at)
	}
	if _, err := netip.ParseAddrPort(target); err != nil {
		return nil, "the target " + host + " is a name: write the IP address that it stands for, because Chive asks no system resolver", nil
	}
	return []string{virtual + "=" + target}, "", nil
}

// isPort reports whether a text is a port from 1 to 65535.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
