package netdoc

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
)

// badPorts are no ports of a policy: no port is 0, and ranges do not run backwards. C tor
// took "0" for the range "1-0" once, and failed when it wrote a summary.
var badPorts = []string{"0", "00", "1-0", "0-0", "0-1", "0-80", "0-65535", "80-0", "90-80", "65535-1", "65536", "1-65536", "65536-1", "-80", "80-", "-", "", "80-81-82", "+80", "80,0", "0x50"}

// A policy names only ports from 1 to 65535: in an operator's rules, in descriptors, in
// microdescriptors and in the entries of consensuses and votes.
func TestPortsOfPolicies(t *testing.T) {
	keys, _ := testKeys(t, ctorTime, false)
	d := plainDesc(t)
	d.Policy6 = &PortPolicy{Accept: true, Ranges: []PortRange{{443, 443}}}
	d.Policy = ExitPolicy{{Accept: true, Ports: PortRange{443, 443}}, {Ports: AllPorts}}
	signed, err := d.Sign(rand.Reader, keys, ctorTime)
	if err != nil {
		t.Fatal(err)
	}
	micro := "onion-key\nntor-onion-key " + strings.Repeat("A", 43) + "\n"
	for what, takes := range map[string]func(ports string) bool{
		"rule":      func(s string) bool { _, err := ParsePolicyRule(true, "*:"+s); return err == nil },
		"IPv6 rule": func(s string) bool { _, err := ParsePolicyRule(false, "[2001:db8::]/32:"+s); return err == nil },
		"line":      func(s string) bool { _, err := ParsePolicyLine("accept *:" + s); return err == nil },
		"private":   func(s string) bool { _, err := ParsePolicyLine("reject private:" + s); return err == nil },
		"accepted":  func(s string) bool { _, err := ParsePortPolicy(Args(" accept " + s)); return err == nil },
		"rejected":  func(s string) bool { _, err := ParsePortPolicy(Args(" reject " + s)); return err == nil },
		"among":     func(s string) bool { _, err := ParsePortPolicy(Args(" accept 22," + s + ",8080")); return err == nil },
		"microdesc": func(s string) bool {
			_, err := ParseMicrodesc([]byte(micro+"p accept "+s+"\n"), nil)
			return err == nil
		},
		"microdesc 6": func(s string) bool {
			_, err := ParseMicrodesc([]byte(micro+"p6 reject "+s+"\n"), nil)
			return err == nil
		},
		"entry": func(s string) bool {
			var rs RouterStatus
			it, _ := NewScanner("test", []byte("p accept "+s+"\n")).Next()
			return rs.parseItem(it, FlavorNS, new(Interner)) == nil
		},
		"descriptor": func(s string) bool {
			_, err := ParseRouterDesc(signAgain(t, keys, signed.Text, []byte("\naccept *:443\n"), []byte("\naccept *:"+s+"\n")), ctorTime)
			return err == nil
		},
		"descriptor's rejected": func(s string) bool {
			_, err := ParseRouterDesc(signAgain(t, keys, signed.Text, []byte("\naccept *:443\n"), []byte("\nreject 192.0.2.0/24:"+s+"\n")), ctorTime)
			return err == nil
		},
		"ipv6-policy": func(s string) bool {
			_, err := ParseRouterDesc(signAgain(t, keys, signed.Text, []byte("\nipv6-policy accept 443\n"), []byte("\nipv6-policy accept "+s+"\n")), ctorTime)
			return err == nil
		},
	} {
		for _, s := range badPorts {
			if takes(s) {
				t.Errorf("%s: ports %q were accepted", what, s)
			}
		}
		for _, s := range []string{"1", "80", "65535", "1-1", "1-65535", "80-81"} {
			if !takes(s) {
				t.Errorf("%s: ports %q were refused", what, s)
			}
		}
	}
	if !bytes.Contains(signed.Text, []byte("ipv6-policy accept 443")) {
		t.Error("no ipv6-policy")
	}
}
