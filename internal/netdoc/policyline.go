package netdoc

import (
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// ParsePolicyLine reads a rule as a user writes it (tor(1), "ExitPolicy"): "accept
// *:80", "reject 192.0.2.0/24", "accept6 *:443" or "reject private:*". "*" with accept
// or reject matches both families, and "private" stands for several networks; with
// accept6 or reject6, only for those of IPv6.
func ParsePolicyLine(line string) (ExitPolicy, error) {
	verb, pattern := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		verb, pattern = line[:i], strings.TrimSpace(line[i:])
	}
	only6 := strings.HasSuffix(verb, "6")
	accept := false
	switch verb {
	case "accept", "accept6":
		accept = true
	case "reject", "reject6":
	default:
		return nil, fault.New(fault.Config, "it begins with neither accept nor reject")
	}
	host, ports := pattern, "*"
	// The colon before the ports follows the bracket of an IPv6 address.
	if i := strings.LastIndexByte(pattern, ':'); i > strings.LastIndexByte(pattern, ']') {
		host, ports = pattern[:i], pattern[i+1:]
	}
	if host == "*" && only6 {
		host = "*6"
	}
	if strings.Contains(host, ":") != strings.HasPrefix(host, "[") {
		return nil, fault.New(fault.Config, "an IPv6 address stands in brackets")
	}
	if host == "private" {
		one, err := ParsePolicyRule(accept, "*:"+ports)
		if err != nil {
			return nil, err
		}
		var p ExitPolicy
		for _, n := range netaddr.ExitPrivate() {
			if n.Addr().Is6() || !only6 {
				p = append(p, PolicyRule{Accept: accept, Net: n, Ports: one.Ports})
			}
		}
		return p, nil
	}
	one, err := ParsePolicyRule(accept, host+":"+ports)
	if err != nil {
		return nil, err
	}
	if only6 && !one.Six && !one.Net.Addr().Is6() {
		return nil, fault.New(fault.Config, "an IPv4 address in a rule about IPv6")
	}
	if host == "*" {
		return ExitPolicy{one, {Accept: accept, Six: true, Ports: one.Ports}}, nil
	}
	return ExitPolicy{one}, nil
}
