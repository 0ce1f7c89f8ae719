package client

import (
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// AddrMap says which hosts stand for others (tor(1), "MapAddress"). The nil map changes
// nothing.
type AddrMap struct {
	hosts   map[string]string // names in small letters, and addresses
	domains map[string]domain // rules for a name and all below it
}

// domain is where a rule for "*.NAME" leads: to one host, or, with whole, to the same
// name below another domain.
type domain struct {
	to    string
	whole bool
}

// maxMapped bounds how many rules a host goes through, one after the other.
const maxMapped = 16

// ParseAddrMap reads rules of the form "FROM TO". Each side is a host name, an address,
// or "*.NAME", which stands for NAME and all below it. Of two rules for one host the
// later one counts, and a rule for the host itself before a rule for its domain.
func ParseAddrMap(rules []string) (*AddrMap, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	m := (*AddrMap)(nil).clone()
	for i, r := range rules {
		if err := m.add(r); err != nil {
			return nil, fault.New(fault.Config, "entry %d: %w", i+1, err)
		}
	}
	for _, r := range rules {
		for _, host := range m.probes(strings.Fields(r)[0]) {
			if _, err := m.Of(host); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// add adds a rule.
func (m *AddrMap) add(rule string) error {
	f := strings.Fields(rule)
	if len(f) != 2 {
		return fault.New(fault.Config, "it is not \"FROM TO\"")
	}
	return m.put(f[0], f[1])
}

// put adds the rule of two sides.
func (m *AddrMap) put(one, other string) error {
	from, fromAll, err := mapSide(one)
	if err != nil {
		return err
	}
	to, toAll, err := mapSide(other)
	switch {
	case err != nil:
		return err
	case toAll && !fromAll:
		return fault.New(fault.Config, "one host cannot become a whole domain")
	case fromAll:
		m.domains[from] = domain{to, toAll}
	default:
		m.hosts[from] = to
	}
	return nil
}

// probes returns hosts that show whether a rule for one leads in a circle.
func (m *AddrMap) probes(one string) []string {
	from, all, err := mapSide(one)
	switch {
	case err != nil:
		return nil
	case all:
		return []string{"x." + from, from}
	}
	return []string{from}
}

// mapSide reads one side of a rule; all: it began with "*.".
func mapSide(s string) (host string, all bool, err error) {
	host, all = strings.CutPrefix(s, "*.")
	if _, err := netip.ParseAddr(plainHost(host)); err == nil {
		if all {
			return "", false, fault.New(fault.Config, "%q: an address has nothing below it", s)
		}
		return plainHost(host), false, nil
	}
	host = plainHost(host)
	switch {
	case !netaddr.HostName(host):
		return "", false, fault.New(fault.Config, "%q is neither a host name nor an address nor *.NAME", s)
	case host == "exit" || strings.HasSuffix(host, ".exit"):
		return "", false, fault.New(fault.Config, "%q: names that choose an exit are not supported; use the option ExitNodes", s)
	}
	return host, all, nil
}

// plainHost brings a host to the form in which hosts are compared.
func plainHost(s string) string {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return netaddr.Plain(a).String()
	}
	return strings.ToLower(strings.TrimRight(s, "."))
}

// Of returns the host that a host stands for: itself, if there is no rule for it.
func (m *AddrMap) Of(host string) (string, error) {
	if m == nil {
		return host, nil
	}
	at := plainHost(host)
	for n := range maxMapped {
		to, ok := m.once(at)
		switch {
		case (!ok || to == at) && n == 0:
			return host, nil
		case !ok || to == at:
			return at, nil
		case !netaddr.HostName(to) && !isAddr(to):
			return "", fault.New(fault.Config, "MapAddress: the name would be too long")
		}
		at = to
	}
	return "", fault.New(fault.Config, "MapAddress: the rules lead in a circle, or go on for ever")
}

func isAddr(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// once applies one rule.
func (m *AddrMap) once(host string) (string, bool) {
	if to, ok := m.hosts[host]; ok {
		return to, true
	}
	if isAddr(host) {
		return "", false
	}
	for below, name := "", host; ; {
		if d, ok := m.domains[name]; ok {
			if d.whole {
				return below + d.to, true
			}
			return d.to, true
		}
		label, rest, more := strings.Cut(name, ".")
		if !more {
			return "", false
		}
		below, name = below+label+".", rest
	}
}
