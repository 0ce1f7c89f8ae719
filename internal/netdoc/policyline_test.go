package netdoc

import (
	"net/netip"
	"strings"
	"testing"
)

// TestPolicyLine: what tor(1) says of the words of a rule.
func TestPolicyLine(t *testing.T) {
	for line, want := range map[string]string{
		"accept *:80":               "accept *:80, accept *6:80",
		"accept\t*:80":              "accept *:80, accept *6:80",
		"reject \t *4:80-81":        "reject *:80-81",
		"accept *6:*":               "accept *6:*",
		"accept6 *:80":              "accept *6:80",
		"reject6 *6:80":             "reject *6:80",
		"reject 192.0.2.0/24":       "reject 192.0.2.0/24:*",
		"accept6 [2001:db8::]/32:1": "accept [2001:db8::]/32:1",
		"accept6 192.0.2.1:80":      "",
		"accept6 *4:80":             "",
		"accept *:0":                "",
		"Accept *:80":               "",
		"accept":                    "",
		"accept6 ":                  "",
	} {
		p, err := ParsePolicyLine(line)
		var got []string
		for _, r := range p {
			got = append(got, r.String())
		}
		if s := strings.Join(got, ", "); s != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q %v", line, s, err)
		}
	}
	// "private" has networks of both families, and with accept6 only those of IPv6.
	for line, four := range map[string]bool{"accept private:80": true, "accept6 private:80": false, "reject6\tprivate:80": false} {
		p, err := ParsePolicyLine(line)
		seen := map[bool]bool{}
		for _, r := range p {
			seen[r.Net.Addr().Is4()] = true
			if r.Ports != (PortRange{80, 80}) || r.Accept != strings.HasPrefix(line, "a") {
				t.Error(line, r)
			}
		}
		if err != nil || !seen[false] || seen[true] != four {
			t.Errorf("%q: %v %v", line, p, err)
		}
	}
	p, _ := ParsePolicyLine("accept6 private:80")
	if p = append(p, PolicyRule{Ports: AllPorts}); p.Allows(netip.MustParseAddr("10.0.0.1"), 80) {
		t.Error("a rule about IPv6 allows IPv4")
	}
}
