package path

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/linkspec"
)

func reach(t testing.TB, entries ...string) Reach {
	t.Helper()
	r, err := ParseReach(entries)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReach: rules are tor(1)'s, and what no rule accepts cannot be reached.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		rules   string
		yes, no string
	}{
		{"*:80,*:443", "192.0.2.1:80 [2001:db8::1]:443", "192.0.2.1:9001 [2001:db8::1]:9001"},
		{"99.0.0.0/8, reject 18.0.0.0/8:80, accept *:80", "99.1.2.3:1 192.0.2.1:80", "18.0.0.1:80 18.0.0.1:443 192.0.2.1:443"},
		{"reject 18.0.0.0/8:80, *:80", "192.0.2.1:80 [2001:db8::1]:80", "18.0.0.1:80"},
		{"192.0.2.1", "192.0.2.1:1 192.0.2.1:65535 [::ffff:192.0.2.1]:9", "192.0.2.2:1"},
		{"[2001:db8::]/32:9001-9003", "[2001:db8::1]:9002", "[2001:db8::1]:9004 [2001:db9::1]:9002 192.0.2.1:9002"},
		{"*4:*", "192.0.2.1:1", "[2001:db8::1]:1"},
		{"accept6 *:*", "[2001:db8::1]:1", "192.0.2.1:1"},
		{"reject private:*, *:*", "192.0.2.1:1", "10.0.0.1:1 [fc00::1]:1"},
	} {
		r := reach(t, c.rules)
		for _, a := range strings.Fields(c.yes) {
			if !r.Allows(netip.MustParseAddrPort(a)) {
				t.Errorf("%s: %s is not allowed", c.rules, a)
			}
		}
		for _, a := range strings.Fields(c.no) {
			if r.Allows(netip.MustParseAddrPort(a)) {
				t.Errorf("%s: %s is allowed", c.rules, a)
			}
		}
	}
	if r := reach(t); r != nil || !r.Allows(netip.MustParseAddrPort("192.0.2.1:1")) {
		t.Error("no rules forbid something")
	}
	for _, bad := range []string{"", "x", "accept", "192.0.2.1:x", "192.0.2.0/33", "2001:db8::1", "*:0-70000", "reject *:*", "reject 192.0.2.1:*", "*:443,,"} {
		if _, err := ParseReach([]string{bad}); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWithoutIPv6(t *testing.T) {
	for _, r := range []Reach{nil, reach(t, "*:443"), reach(t, "[2001:db8::]/32:443", "*:443")} {
		r = r.WithoutIPv6()
		if !r.Allows(netip.MustParseAddrPort("192.0.2.1:443")) || r.Allows(netip.MustParseAddrPort("[2001:db8::1]:443")) {
			t.Errorf("%v", r)
		}
	}
}

func TestReachTarget(t *testing.T) {
	both := linkspec.Target{Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9001"), netip.MustParseAddrPort("[2001:db8::1]:443")}}
	got, err := reach(t, "*:443").Target(both)
	if err != nil || !slices.Equal(got.Addrs, both.Addrs[1:]) || len(both.Addrs) != 2 {
		t.Errorf("%v %v", got.Addrs, err)
	}
	if _, err := reach(t, "*:80").Target(both); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if got, err := Reach(nil).Target(both); err != nil || len(got.Addrs) != 2 {
		t.Error(got, err)
	}
}

// TestGuardsBehindAFirewall: the guard is chosen among the relays that can be reached,
// and the error names the rule if there is none.
func TestGuardsBehindAFirewall(t *testing.T) {
	d := big(t)
	var ports []uint16
	for g := range guard.FromNetdir(d).Guards() {
		ports = append(ports, g.Addrs[0].Port())
	}
	slices.Sort(ports)
	c := &Config{Reachable: reach(t, "*:"+portText(ports[len(ports)/2]))}
	m := manager(t, d, c.GuardFilter(d))
	for i := range 20 {
		p := choose(t, c, d, m, rng(uint64(i)), Spec{})
		if _, err := c.Reachable.Target(p.Hops[0].Target); err != nil {
			t.Fatalf("the guard is at %v", p.Hops[0].Target.Addrs)
		}
		p.Guard.Cancelled(d.ValidAfter())
	}
	walled := &Config{Reachable: reach(t, "*:1")}
	for _, from := range []guard.Filter{walled.GuardFilter(d), c.GuardFilter(d)} {
		m := manager(t, d, from)
		m.SetFilter(walled.GuardFilter(nil), d.ValidAfter()) // a reload
		_, err := walled.Choose(d, m, rng(1), &Spec{}, d.ValidAfter())
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("no guard is left: %v", err)
		}
	}
}

func portText(p uint16) string {
	_, s, _ := strings.Cut(netip.AddrPortFrom(netip.IPv4Unspecified(), p).String(), ":")
	return s
}

func FuzzParseReach(f *testing.F) {
	f.Add("*:80, reject 18.0.0.0/8, [2001:db8::]/32:1-2, private")
	f.Fuzz(func(t *testing.T, e string) {
		r, err := ParseReach([]string{e})
		if err != nil {
			return
		}
		r.Allows(netip.MustParseAddrPort("192.0.2.1:443"))
		if six := r.WithoutIPv6(); six.Allows(netip.MustParseAddrPort("[2001:db8::1]:443")) {
			t.Fatal("IPv6 is left")
		}
	})
}
