package netdoc

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
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

// slowAccepts is how the specification tells it: rule by rule for each segment.
func slowAccepts(p ExitPolicy, seg PortRange, six bool) bool {
	cutoff := uint64(cutoff4)
	if six {
		cutoff = cutoff6
	}
	var refused uint64
	for _, r := range p {
		if seg.Lo < r.Ports.Lo || seg.Hi > r.Ports.Hi || r.isSix() != six {
			continue
		}
		bits := 0
		if r.Net.IsValid() {
			bits = r.Net.Bits()
		}
		switch {
		case r.Accept && bits == 0:
			return refused <= cutoff
		case r.Accept || netaddr.IsExitPrivate(r.Net):
		case !six:
			refused += 1 << (32 - bits)
		case bits == 0:
			return false
		case bits <= 64:
			refused += 1 << (64 - bits)
		}
	}
	return false
}

// TestSummarizeRandom compares with the slow way, port by port.
func TestSummarizeRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	nets := []string{"*", "*6", "*4", "0.0.0.0/1", "1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/7", "10.0.0.0/8", "[2001::]/16", "[2002::]/16", "[2003::]/17", "[fc00::]/7", "[2001:db8::]/96", "5.6.7.8"}
	for range 2000 {
		var p ExitPolicy
		for range rng.IntN(12) {
			lo := 1 + rng.IntN(30)
			ports := "*"
			if rng.IntN(3) > 0 {
				ports = strconv.Itoa(lo) + "-" + strconv.Itoa(lo+rng.IntN(10))
			}
			r, err := ParsePolicyRule(rng.IntN(2) == 0, nets[rng.IntN(len(nets))]+":"+ports)
			if err != nil {
				t.Fatal(err)
			}
			p = append(p, r)
		}
		for _, six := range []bool{false, true} {
			s := p.Summarize(six)
			for port := uint16(1); port < 60; port++ {
				if got, want := s.AllowsPort(port), slowAccepts(p, PortRange{port, port}, six); got != want {
					t.Fatalf("%v: port %d, IPv6 %v: %v", p, port, six, got)
				}
			}
		}
	}
}

// BenchmarkSummarizeHostile: the policies that fit a descriptor and take longest.
func BenchmarkSummarizeHostile(b *testing.B) {
	var ports, nets ExitPolicy
	for i := 1; i < 1400; i++ {
		ports = append(ports, PolicyRule{Accept: true, Ports: PortRange{uint16(2 * i), uint16(2 * i)}})
		if i < 500 {
			nets = append(nets, PolicyRule{Net: netip.PrefixFrom(netip.AddrFrom4([4]byte{1, 1, byte(i >> 8), byte(i)}), 32), Ports: AllPorts})
		}
	}
	for name, p := range map[string]ExitPolicy{"ports": append(ports, PolicyRule{Ports: AllPorts}), "nets": append(nets, ports[:700]...)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.Summarize(false)
			}
		})
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
