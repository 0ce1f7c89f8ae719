package relay

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// TestNameservers: a mistake in them is told also while the relay is no exit; a reload may
// make it one.
func TestNameservers(t *testing.T) {
	cfg := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}, Nameservers: []string{"192.0.2.53"}}
	if err := cfg.Check(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Nameservers") {
		t.Error(err)
	}
	cfg.Nameservers[0] += ":53"
	if err := cfg.Check(); err != nil && strings.Contains(err.Error(), "Nameservers") {
		t.Error(err)
	}
}

// TestPolicyThatRefusesAll: a relay whose policy refuses everything is no exit, as in C tor:
// it asks no name server for strangers, and may be a bridge.
func TestPolicyThatRefusesAll(t *testing.T) {
	for _, c := range []struct {
		lines []string
		six   bool
		exit  bool
	}{
		{nil, true, false},
		{[]string{"reject *:*"}, true, false},
		{[]string{"reject *4:*,reject6 *:*", "accept *:80"}, true, false},
		{[]string{"accept6 *:80", "reject *:*"}, false, false},
		{[]string{"accept6 *:80", "reject *:*"}, true, true},
		{[]string{"reject *4:*"}, true, true},
		{[]string{"default"}, false, true},
	} {
		cfg := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}, ExitPolicy: c.lines, IPv6Exit: c.six}
		got, err := cfg.inner(finding.addresses)
		if err != nil || (got.Exit != nil) != c.exit {
			t.Errorf("%q: %v %v", c.lines, got.Exit, err)
		}
	}
	bridge := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}, DataDir: t.TempDir(), Bridge: true, ExitPolicy: []string{"reject *:*"}}
	if err := bridge.Check(); err != nil {
		t.Error(err)
	}
}

// TestReducedExitPolicy: the option alone makes an exit, and takes the default policy's place
// behind lines.
func TestReducedExitPolicy(t *testing.T) {
	to := netip.MustParseAddr("198.51.100.7")
	for _, c := range []struct {
		lines        []string
		reduced      bool
		exit         bool
		p81, p5, p22 bool // 81 and 22 are on C tor's list
	}{
		{nil, false, false, false, false, false},
		{nil, true, true, true, false, true},
		{[]string{"reject *:22"}, true, true, true, false, false},
		{[]string{"reject *:22"}, false, true, true, true, false},
		{[]string{"accept *:5", "reject *:*"}, true, true, false, true, false},
	} {
		cfg := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}, ExitPolicy: c.lines, ReducedExitPolicy: c.reduced}
		got, err := cfg.inner(finding.addresses)
		if err != nil || (got.Exit != nil) != c.exit {
			t.Errorf("%q: %v %v", c.lines, got.Exit, err)
			continue
		}
		if p := got.Exit; p != nil && (p.Policy.Allows(to, 81) != c.p81 || p.Policy.Allows(to, 5) != c.p5 || p.Policy.Allows(to, 22) != c.p22) {
			t.Errorf("%q, %v: %v", c.lines, c.reduced, p.Policy)
		}
	}
}
