package exit

import (
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/options"
)

// ParsePolicy reads the lines of an exit policy as an operator writes them and C
// tor's ExitPolicy has them: "accept *:80", "reject 192.0.2.0/24:*", "accept6
// *:443", "reject private:*". "*" with accept or reject matches both families.
// "default" stands for DefaultPolicy.
func ParsePolicy(lines []string) (netdoc.ExitPolicy, error) {
	var p netdoc.ExitPolicy
	for _, l := range lines {
		for _, one := range strings.Split(l, ",") {
			rules, err := parseLine(strings.TrimSpace(one))
			if err != nil {
				return nil, options.Wrong("ExitPolicy", "%q: %w", one, err)
			}
			p = append(p, rules...)
		}
	}
	return p, nil
}

// PolicyOptions are the settings besides its lines on which an exit policy
// depends.
type PolicyOptions struct {
	// Private leaves the decision on private networks and the relay's own
	// addresses to the lines (C tor: ExitPolicyRejectPrivate 0). Streams to the
	// relay itself are always refused: see allowed.
	Private bool
	IPv6    bool         // streams may go to IPv6 addresses, if the lines accept them
	Own     []netip.Addr // the relay's addresses as others know them
	Reduced bool         // ReducedPolicy follows the lines, not DefaultPolicy
}

// WholePolicy returns the complete policy for an operator's lines, as C tor makes
// it: first the refusals of the options, then the lines, then the default policy, or
// the reduced one. So it decides about every address, and what follows the lines applies
// only if they do not end with a rule about all addresses.
func WholePolicy(lines []string, o PolicyOptions) (netdoc.ExitPolicy, error) {
	var p netdoc.ExitPolicy
	if !o.IPv6 {
		p = append(p, netdoc.PolicyRule{Six: true, Ports: netdoc.AllPorts})
	}
	if !o.Private {
		p = append(p, RejectPrivate()...)
		for _, a := range o.Own {
			if a = netaddr.Plain(a); netaddr.Public(a) {
				p = append(p, netdoc.PolicyRule{Net: netip.PrefixFrom(a, a.BitLen()), Ports: netdoc.AllPorts})
			}
		}
	}
	own, err := ParsePolicy(lines)
	if err != nil {
		return nil, err
	}
	last := DefaultPolicy()
	if o.Reduced {
		last = ReducedPolicy()
	}
	return append(append(p, own...), last...).Compact(), nil
}

func parseLine(line string) (netdoc.ExitPolicy, error) {
	if line == "default" {
		return DefaultPolicy(), nil
	}
	return netdoc.ParsePolicyLine(line)
}
