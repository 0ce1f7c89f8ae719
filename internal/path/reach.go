package path

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// Reach says which addresses and ports a client can connect to, for example because a
// firewall lets nothing else through. The first rule that matches decides, and the last
// rules refuse everything. Nil allows everything.
type Reach netdoc.ExitPolicy

// ErrUnreachable says that a client may not connect to an address.
var ErrUnreachable = fault.New(fault.Config, "the option ReachableAddresses allows none of the addresses")

// ParseReach reads rules as tor(1) has them for ReachableAddresses: rules of an exit
// policy in which "accept" may be missing, such as "*:443", "99.0.0.0/8", "[2001:db8::]/32:9001",
// "reject 18.0.0.0/8:80" or "*4:*" for all of IPv4. What no rule accepts cannot be
// reached. Without entries, everything can.
func ParseReach(entries []string) (Reach, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	var r Reach
	for _, e := range entries {
		for one := range strings.SplitSeq(e, ",") {
			one = strings.TrimSpace(one)
			if verb, _, _ := strings.Cut(one, " "); !slices.Contains([]string{"accept", "accept6", "reject", "reject6"}, verb) {
				one = "accept " + one
			}
			rules, err := netdoc.ParsePolicyLine(one)
			if err != nil {
				return nil, fault.Wrap(fault.Config, err) // which has the part that is wrong
			}
			r = append(r, rules...)
		}
	}
	r = r.closed()
	if !slices.ContainsFunc(r, func(p netdoc.PolicyRule) bool { return p.Accept }) {
		return nil, fault.New(fault.Config, "no relay can be reached: after rules that reject some addresses, one must accept others, such as \"accept *:*\"")
	}
	return r, nil
}

// closed adds rules that refuse what the others do not decide, and leaves out rules that
// never decide.
func (r Reach) closed() Reach {
	all := append(netdoc.ExitPolicy(r), netdoc.PolicyRule{Ports: netdoc.AllPorts}, netdoc.PolicyRule{Six: true, Ports: netdoc.AllPorts})
	return Reach(all.Compact())
}

// WithoutIPv6 returns the same rules for IPv4 alone.
func (r Reach) WithoutIPv6() Reach {
	if r == nil {
		r = Reach{{Accept: true, Ports: netdoc.AllPorts}}
	}
	return Reach(append(netdoc.ExitPolicy{{Six: true, Ports: netdoc.AllPorts}}, r...)).closed()
}

// Allows reports whether the client can connect to an address.
func (r Reach) Allows(a netip.AddrPort) bool {
	return r == nil || netdoc.ExitPolicy(r).Allows(a.Addr(), a.Port())
}

// Target returns t with the addresses that the client can connect to, or ErrUnreachable.
func (r Reach) Target(t linkspec.Target) (linkspec.Target, error) {
	if r == nil {
		return t, nil
	}
	var can []netip.AddrPort
	for _, a := range t.Addrs {
		if r.Allows(a) {
			can = append(can, a)
		}
	}
	if len(can) == 0 {
		return t, ErrUnreachable
	}
	t.Addrs = can
	return t, nil
}
