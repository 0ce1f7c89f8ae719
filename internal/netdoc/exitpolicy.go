package netdoc

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// ExitPolicy is a full exit policy (dir-spec, "accept" and "reject" lines of a
// router descriptor): the first rule that matches decides.
type ExitPolicy []PolicyRule

// PolicyRule is one line of an exit policy.
type PolicyRule struct {
	Accept bool
	Net    netip.Prefix // invalid: any address of the rule's family
	Six    bool         // if Net is invalid: any IPv6 address instead of any IPv4 address
	Ports  PortRange
}

const maxRules = 5000

// AllPorts is every port that a policy can name.
var AllPorts = PortRange{1, 65535}

// ParsePolicyRule reads the argument of an "accept" or "reject" line: ADDRESS[/BITS
// or /MASK]:PORTS, Each part may be "*". An IPv6 address is in brackets.
func ParsePolicyRule(accept bool, s string) (PolicyRule, error) {
	r := PolicyRule{Accept: accept, Ports: AllPorts}
	i := strings.LastIndexByte(s, ':')
	if i < 0 || len(s) > 128 {
		return r, fault.New(fault.Directory, "%q is not ADDRESS:PORTS", clip([]byte(s)))
	}
	addr, ports := s[:i], s[i+1:]
	if ports != "*" {
		var err error
		if r.Ports, err = parsePortRange([]byte(ports)); err != nil {
			return r, err
		}
	}
	switch addr {
	case "*", "*4":
		return r, nil
	case "*6":
		r.Six = true
		return r, nil
	}
	host, bits, hasBits := strings.Cut(addr, "/")
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" || ip.Is4In6() {
		return r, fault.New(fault.Directory, "%q is not an address", clip([]byte(host)))
	}
	n := ip.BitLen()
	if hasBits {
		if n, err = parseMask(bits, ip); err != nil {
			return r, err
		}
	}
	r.Net, err = ip.Prefix(n)
	return r, fault.Wrap(fault.Directory, err)
}

// parseMask reads a number of bits, or an IPv4 mask such as 255.255.0.0.
func parseMask(s string, ip netip.Addr) (int, error) {
	if v, err := parseUint([]byte(s), "mask", uint64(ip.BitLen())); err == nil {
		return int(v), nil
	}
	m, err := netip.ParseAddr(s)
	if err != nil || !m.Is4() || !ip.Is4() {
		return 0, fault.New(fault.Directory, "%q is not a mask", clip([]byte(s)))
	}
	b := m.As4()
	bits := 0
	for bits < 32 && b[bits/8]&(0x80>>(bits%8)) != 0 {
		bits++
	}
	if p, _ := netip.AddrFrom4([4]byte{255, 255, 255, 255}).Prefix(bits); p.Addr() != m {
		return 0, fault.New(fault.Directory, "mask %q has holes", clip([]byte(s)))
	}
	return bits, nil
}

// matches reports whether the rule applies to the address and the port.
func (r *PolicyRule) matches(addr netip.Addr, port uint16) bool {
	if port < r.Ports.Lo || port > r.Ports.Hi {
		return false
	}
	if !r.Net.IsValid() {
		return r.Six == addr.Is6()
	}
	return r.Net.Contains(addr)
}

// String returns the rule as a line of a descriptor.
func (r PolicyRule) String() string {
	s := "reject "
	if r.Accept {
		s = "accept "
	}
	switch {
	case !r.Net.IsValid() && r.Six:
		s += "*6"
	case !r.Net.IsValid():
		s += "*"
	case r.Net.Addr().Is6():
		s += "[" + r.Net.Addr().String() + "]"
	default:
		s += r.Net.Addr().String()
	}
	if r.Net.IsValid() && !r.Net.IsSingleIP() {
		s += "/" + itoa(r.Net.Bits())
	}
	switch {
	case r.Ports == AllPorts:
		return s + ":*"
	case r.Ports.Lo == r.Ports.Hi:
		return s + ":" + itoa(r.Ports.Lo)
	}
	return s + ":" + itoa(r.Ports.Lo) + "-" + itoa(r.Ports.Hi)
}

// Allows reports whether the policy allows a connection to the address. It allows
// what no rule matches (dir-spec).
func (p ExitPolicy) Allows(addr netip.Addr, port uint16) bool {
	addr = netaddr.Plain(addr)
	for i := range p {
		if p[i].matches(addr, port) {
			return p[i].Accept
		}
	}
	return true
}

// Compact leaves out the rules that never decide because earlier rules cover them.
// The meaning of the policy stays the same.
func (p ExitPolicy) Compact() ExitPolicy {
	var out ExitPolicy
	for i := range p {
		if !slices.ContainsFunc(out, func(r PolicyRule) bool { return r.covers(&p[i]) }) {
			out = append(out, p[i])
		}
	}
	return out
}

// Decides reports whether the policy has, for each address family, a rule for all
// addresses and ports.
func (p ExitPolicy) Decides() bool {
	all := func(six bool) bool {
		return slices.ContainsFunc(p, func(r PolicyRule) bool { return r.isSix() == six && r.bits() == 0 && r.Ports == AllPorts })
	}
	return all(false) && all(true)
}

// Accepts reports whether the policy, without the rules that Compact leaves out, accepts
// anything.
func (p ExitPolicy) Accepts() bool {
	return slices.ContainsFunc(p, func(r PolicyRule) bool { return r.Accept })
}

// covers reports whether r matches everything that o matches.
func (r *PolicyRule) covers(o *PolicyRule) bool {
	return r.isSix() == o.isSix() && r.Ports.Lo <= o.Ports.Lo && r.Ports.Hi >= o.Ports.Hi &&
		(r.bits() == 0 || r.bits() <= o.bits() && r.Net.Contains(o.Net.Addr()))
}

// bits returns how many bits of an address the rule fixes.
func (r *PolicyRule) bits() int {
	if r.Net.IsValid() {
		return r.Net.Bits()
	}
	return 0
}

// Cutoffs of the summary: a port counts as accepted even if rules reject it for some
// addresses, up to two /8 networks (IPv4) or a /16 (IPv6).
const (
	cutoff4 = 1 << 25
	cutoff6 = 1 << 48 // in units of /64 networks
	// maxSummary is the longest summary, in characters.
	maxSummary = 1000
)

// Summarize returns the ports that the policy allows for most addresses of a family
// (dir-spec, "encoding port lists"), as C tor computes them.
func (p ExitPolicy) Summarize(six bool) *PortPolicy {
	bounds := []int{1, 65536} // the first ports of segments; no rule splits a segment
	for i := range p {
		bounds = append(bounds, int(p[i].Ports.Lo), int(p[i].Ports.Hi)+1)
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	var open, closed []PortRange
	for i, accepted := range p.accepts(bounds, six) {
		seg := PortRange{uint16(bounds[i]), uint16(bounds[i+1] - 1)}
		if accepted {
			open = appendRange(open, seg)
		} else {
			closed = appendRange(closed, seg)
		}
	}
	a, r := &PortPolicy{Accept: true, Ranges: open}, &PortPolicy{Ranges: closed}
	if len(open) == 0 {
		return r
	}
	if len(closed) == 0 {
		return a
	}
	la, lr := len(a.String()), len(r.String())
	switch {
	case lr > maxSummary && la > maxSummary: // too long: leave out some open ports
		for la > maxSummary {
			last := len(a.Ranges) - 1
			la -= len(",") + len(a.Ranges[last].String())
			a.Ranges = a.Ranges[:last]
		}
		return a
	case lr < la:
		return r
	}
	return a
}

// appendRange adds a range, and joins it to the last range if they touch.
func appendRange(list []PortRange, r PortRange) []PortRange {
	if n := len(list); n > 0 && list[n-1].Hi+1 == r.Lo {
		list[n-1].Hi = r.Hi
		return list
	}
	return append(list, r)
}

// accepts reports, for each segment of ports that begins at bounds, whether a rule
// for all addresses accepts it before earlier rules have rejected too many
// addresses. The publisher of the policy chooses how many rules there are, so
// accepts passes through them once, and each rule visits only segments that are
// still undecided.
func (p ExitPolicy) accepts(bounds []int, six bool) []bool {
	cutoff := uint64(cutoff4)
	if six {
		cutoff = cutoff6
	}
	n := len(bounds) - 1
	open, refused := make([]bool, n), make([]uint64, n)
	next := make([]int, n+1) // the next undecided segment, or one before it
	for i := range next {
		next[i] = i
	}
	find := func(i int) int {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	for k := range p {
		r := &p[k]
		if r.isSix() != six {
			continue
		}
		bits := r.bits()
		accept, refuses := r.Accept && bits == 0, uint64(0)
		switch {
		case r.Accept || netaddr.IsExitPrivate(r.Net):
			if !accept {
				continue
			}
		case !six:
			refuses = 1 << (32 - bits)
		case bits == 0:
			refuses = cutoff + 1
		case bits <= 64:
			refuses = 1 << (64 - bits)
		}
		from, _ := slices.BinarySearch(bounds, int(r.Ports.Lo))
		to, _ := slices.BinarySearch(bounds, int(r.Ports.Hi)+1)
		for i := find(from); i < to; i = find(i + 1) {
			refused[i] += refuses
			if accept || refused[i] > cutoff { // refused never shrinks
				open[i] = accept
				next[i] = i + 1
			}
		}
	}
	return open
}

func (r *PolicyRule) isSix() bool {
	if r.Net.IsValid() {
		return r.Net.Addr().Is6()
	}
	return r.Six
}
