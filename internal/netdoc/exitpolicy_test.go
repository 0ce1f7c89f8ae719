package netdoc

import (
	"math/rand/v2"
	"net/netip"
	"slices"
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

// TestCompact: rules that others before them cover go, and the policy means what it
// did; one that is covered in part, or by a later rule, or for the other family,
// stays.
func TestCompact(t *testing.T) {
	for _, c := range []struct {
		rules []string
		kept  string // their places
	}{
		{[]string{"accept *:80", "reject *:80"}, "0"},
		{[]string{"reject 10.0.0.0/8:*", "accept 10.1.0.0/16:80", "reject 10.0.0.0/8:*"}, "0"},
		{[]string{"reject 10.1.0.0/16:*", "accept 10.0.0.0/8:*"}, "0 1"},
		{[]string{"reject 10.0.0.0/8:80", "accept 10.1.0.0/16:80-81"}, "0 1"},
		{[]string{"reject 10.0.0.0/8:1-100", "accept 11.0.0.0/8:1-100"}, "0 1"},
		{[]string{"reject *:*", "accept [2001:db8::]/32:80", "reject *6:*"}, "0 1 2"},
		{[]string{"reject *6:*", "accept [2001:db8::]/32:80", "reject *:*", "accept 1.2.3.4:5"}, "0 2"},
		{nil, ""},
	} {
		p := policy(t, c.rules...)
		var want ExitPolicy
		for i := range strings.FieldsSeq(c.kept) {
			n, err := strconv.Atoi(i)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, p[n])
		}
		if got := p.Compact(); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", c.rules, got, want)
		}
	}
	// Whatever the rules, no address and port is judged otherwise.
	random := rand.New(rand.NewPCG(1, 2))
	addr := func() netip.Addr {
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(random.IntN(3)), 0, byte(random.IntN(3))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(random.IntN(3))})
	}
	for range 300 {
		var p ExitPolicy
		for range random.IntN(12) {
			a := addr()
			bits := []int{0, 8, 16, 32, 64, 128}[random.IntN(6)]
			pattern := a.String() + "/" + strconv.Itoa(min(bits, a.BitLen()))
			if a.Is6() {
				pattern = "[" + a.String() + "]/" + strconv.Itoa(bits)
			}
			lo := 1 + random.IntN(5)
			r, err := ParsePolicyRule(random.IntN(2) == 0, pattern+":"+strconv.Itoa(lo)+"-"+strconv.Itoa(lo+random.IntN(4)))
			if err != nil {
				t.Fatal(pattern, err)
			}
			p = append(p, r)
		}
		short := p.Compact()
		for range 200 {
			if a, port := addr(), uint16(1+random.IntN(9)); p.Allows(a, port) != short.Allows(a, port) {
				t.Fatalf("%v port %d: %v says %v, %v does not", a, port, p, p.Allows(a, port), short)
			}
		}
	}
}

// TestDecides: a policy has a last word when it has one for each family.
func TestDecides(t *testing.T) {
	for rules, want := range map[string]bool{
		"": false, "reject *:*": false, "reject *6:*": false, "reject *:*,accept *6:*": true, "accept *6:*,accept *:80,reject *:*": true,
		"reject *:*,reject *6:1-65534": false, "reject 0.0.0.0/0:*,reject [::]/0:*": true, "reject 0.0.0.0/1:*,reject 128.0.0.0/1:*,reject *6:*": false,
	} {
		var lines []string
		if rules != "" {
			lines = strings.Split(rules, ",")
		}
		if got := policy(t, lines...).Decides(); got != want {
			t.Errorf("%q: %v", rules, got)
		}
	}
}
