package netdoc

import (
	"net/netip"
	"strings"
	"testing"
)

func policy(t testing.TB, lines ...string) ExitPolicy {
	t.Helper()
	var p ExitPolicy
	for _, l := range lines {
		verb, pattern, _ := strings.Cut(l, " ")
		r, err := ParsePolicyRule(verb == "accept", pattern)
		if err != nil {
			t.Fatal(err)
		}
		p = append(p, r)
	}
	return p
}

func TestExitPolicy(t *testing.T) {
	p := policy(t, "reject 10.0.0.0/8:*", "reject 192.0.2.7:25", "accept 192.0.2.0/255.255.255.0:20-30", "accept *:80", "reject [2001:db8::]/32:*", "accept *6:443", "reject *:*", "reject *6:*")
	for _, c := range []struct {
		addr string
		port uint16
		want bool
	}{
		{"10.1.2.3", 80, false}, {"11.1.2.3", 80, true}, {"::ffff:10.1.2.3", 80, false}, {"192.0.2.7", 25, false},
		{"192.0.2.8", 25, true}, {"192.0.2.8", 31, false}, {"2001:db8::1", 443, false}, {"2001:db9::1", 443, true}, {"2001:db9::1", 80, false},
	} {
		if got := p.Allows(netip.MustParseAddr(c.addr), c.port); got != c.want {
			t.Errorf("%s port %d: %v", c.addr, c.port, got)
		}
	}
	if !(ExitPolicy{}).Allows(netip.MustParseAddr("192.0.2.1"), 1) {
		t.Error("what no rule speaks about is let out")
	}
	for _, bad := range []string{"", "*", "*:", "*:0", "*:70000", "1.2.3:4", "1.2.3.4/33:1", "1.2.3.4/255.0.255.0:1", "[::1:1", "fe80::1%eth0:1", "1.2.3.4/-1:1"} {
		if r, err := ParsePolicyRule(true, bad); err == nil {
			t.Errorf("%q: %v", bad, r)
		}
	}
}

// C tor's own test cases, with its answers.
func TestSummarize(t *testing.T) {
	n := 0
	for line := range strings.Lines(string(read(t, "policy_summaries.txt"))) {
		rules, want, _ := strings.Cut(strings.TrimSpace(line), " = ")
		p := policy(t, strings.Split(rules, ",")...)
		if got := p.Summarize(false).String(); got != want {
			t.Errorf("%.100s: %q, not %q", rules, got, want)
		}
		n++
	}
	if n < 15 {
		t.Errorf("%d cases", n)
	}
	six := policy(t, "accept *6:80", "reject *6:*", "accept *:22", "reject *:*")
	if got := six.Summarize(true).String() + ", " + six.Summarize(false).String(); got != "accept 80, accept 22" {
		t.Error(got)
	}
	var long []string
	for i := range 400 {
		long = append(long, "accept *:"+itoa(1+3*i))
	}
	if got := policy(t, append(long, "reject *:*")...).Summarize(false).String(); len(got) > maxSummary || !strings.HasPrefix(got, "accept 1,4,7,") {
		t.Error(len(got))
	}
}

func FuzzPolicyRule(f *testing.F) {
	for _, s := range []string{"*:*", "1.2.3.4/8:80-90", "1.2.3.4/255.0.0.0:1", "[2001:db8::]/32:*", "*6:443", "1.2.3.4/33:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParsePolicyRule(true, s)
		if err != nil {
			return
		}
		_, pattern, _ := strings.Cut(r.String(), " ")
		if again, err := ParsePolicyRule(true, pattern); err != nil || again != r {
			t.Fatalf("%q: %v, then %v: %v", s, r, again, err)
		}
	})
}
