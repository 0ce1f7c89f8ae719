package control

import (
	"net/netip"
	"path"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/torrc"
)

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// readTarget reads "ADDRESS:PORT", "ADDRESS:LOW-HIGH", "ADDRESS:*" or "unix:PATH".
func readTarget(s string) (t target, err error) {
	wrong := fault.New(fault.Config, "ADD_ONION: target=%s: give ADDRESS:PORT, ADDRESS:LOW-HIGH, ADDRESS:* or unix:/PATH", ctlwire.Quote(s))
	if p, ok := strings.CutPrefix(s, "unix:"); ok {
		if t.path, err = readPattern(p, false); err == nil && !plainPath(t.path.text) {
			err = wrong
		}
		return t, err
	}
	i := strings.LastIndexByte(s, ':')
	if i < 0 || !isHost(strings.Trim(s[:i], "[]")) {
		return t, wrong
	}
	t.host = strings.Trim(s[:i], "[]")
	low, high, isRange := strings.Cut(s[i+1:], "-")
	if low == "*" && !isRange {
		t.low, t.high = 1, 65535
		return t, nil
	}
	if !isRange {
		high = low
	}
	a, err1 := strconv.ParseUint(low, 10, 16)
	b, err2 := strconv.ParseUint(high, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || a > b {
		return t, wrong
	}
	t.low, t.high = uint16(a), uint16(b)
	return t, nil
}

// plainPath reports whether a path is absolute, leads nowhere else by its dots, and is written as it is.
func plainPath(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\"'\\,") {
		return false
	}
	for i := range len(p) {
		if p[i] <= ' ' || p[i] >= 0x7f {
			return false
		}
	}
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// port checks a value of Port, and returns it as the rule has it go on.
func (o *onionRule) port(value string) (string, bool) {
	p, err := torrc.OnionPort(strings.Replace(value, ",", " ", 1))
	if err != nil {
		return "", false
	}
	virtual, to, _ := strings.Cut(p, "=")
	if !contains(o.ports, virtual) && !contains(o.ports, "*") {
		return "", false
	}
	if to, err = o.place(to); err != nil {
		return "", false
	}
	out := virtual + "," + to
	again, err := torrc.OnionPort(virtual + " " + to)
	return out, err == nil && again == virtual+"="+to
}

var errElsewhere = fault.New(fault.Refused, "the target is not allowed")

// place returns where a service's port leads.
func (o *onionRule) place(to string) (string, error) {
	if p, ok := strings.CutPrefix(to, "unix:"); ok {
		for _, t := range o.targets {
			if t.path.text != "" && plainPath(p) && t.path.matches(p) {
				return to, nil
			}
		}
		return "", errElsewhere
	}
	i := strings.LastIndexByte(to, ':')
	host, err := netip.ParseAddr(strings.Trim(to[:max(i, 0)], "[]"))
	number, err2 := strconv.ParseUint(to[i+1:], 10, 16)
	if err != nil || err2 != nil || host.Zone() != "" {
		return "", errElsewhere
	}
	for _, t := range o.targets {
		// Another way to write an address is not the same text, but the same address.
		if allowed, err := netip.ParseAddr(t.host); err != nil || allowed != host.Unmap() || uint64(t.low) > number || number > uint64(t.high) {
			continue
		}
		if o.host != "" {
			if host, err = netip.ParseAddr(o.host); err != nil {
				return "", err
			}
		}
		return netip.AddrPortFrom(host.Unmap(), uint16(number)).String(), nil
	}
	return "", errElsewhere
}
