package exit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/stream"
)

// exitOf makes an exit with the policy lines. Its name server answers with the
// records of zone, "NAME TYPE DATA".
func exitOf(t *testing.T, private bool, zone []string, lines ...string) *Config {
	t.Helper()
	p, err := WholePolicy(lines, PolicyOptions{Private: private, IPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	ns := serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		for _, r := range zone {
			name, rest, _ := strings.Cut(r, " ")
			if !strings.EqualFold(name, m.Question[0].Name) {
				continue
			}
			rr, err := dns.NewRR(name + " 600 IN " + rest)
			if err != nil {
				t.Error(r, err)
			} else if rr.Header().Rrtype == m.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		_ = w.WriteMsg(m)
	})
	return &Config{Policy: p, Private: private, IPv6: true, Nameservers: []netip.AddrPort{ns}}
}

// TestMappedAnswers: an IPv4 address in an AAAA record is refused: it would pass
// the rules about IPv4 addresses.
func TestMappedAnswers(t *testing.T) {
	port := echoServer(t)
	cfg := exitOf(t, true, []string{"mapped.test. AAAA ::ffff:127.0.0.1"}, "accept *:*")
	e, c := setup(t, cfg, nil)
	e.opts.Inside = func(a netip.AddrPort) bool { return a == netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port) }
	_, err := dial(t, c, "mapped.test", port)
	wantEnd(t, err, cell.EndResolveFailed)
	_, err = dial(t, c, "::ffff:127.0.0.1", port)
	wantEnd(t, err, cell.EndConnectRefused)
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// TestAllowed: an exit that refuses an address refuses every other form of it.
func TestAllowed(t *testing.T) {
	own := netip.MustParseAddr("198.51.100.7")
	for _, x := range []struct {
		addr          string
		allowed, lets bool // without and with private networks
	}{
		{"203.0.113.1", true, true}, {"2001:db8::1", true, true}, {"64:ff9b::203.0.113.1", false, true}, {"2002:cb00:7101::1", true, true},
		{"198.51.100.7", false, false}, {"64:ff9b::198.51.100.7", false, false}, {"2002:c633:6407::1", false, false}, {"2001::39cc:9bf8", false, false},
		{"192.0.2.1", false, false}, {"2002:c000:201::1", false, false},
		{"10.0.0.1", false, true}, {"100.64.0.1", false, true}, {"2002:a00:1::1", false, true}, {"169.254.169.254", false, true}, {"224.0.0.1", false, true}, {"fe80::1", false, true},
		{"0.0.0.0", false, false}, {"::", false, false}, {"2002::1", false, false},
	} {
		for _, private := range []bool{false, true} {
			p, err := WholePolicy([]string{"reject 192.0.2.0/24:*", "accept *:*"}, PolicyOptions{Private: private, IPv6: true})
			if err != nil {
				t.Fatal(err)
			}
			e := &Exit{opts: Options{Own: []netip.Addr{own}}}
			c := &rules{Config: &Config{Policy: p, Private: private}}
			want := x.allowed
			if private {
				want = x.lets
			}
			if got := e.allowed(c, netip.MustParseAddr(x.addr), 80); got != want {
				t.Errorf("%s, private %v: %v", x.addr, private, got)
			}
		}
	}
	e := &Exit{opts: Options{Inside: func(a netip.AddrPort) bool { return a == netip.AddrPortFrom(own, 9001) }}}
	for addr, want := range map[string]bool{"198.51.100.7": true, "64:ff9b::198.51.100.7": true, "2002:c633:6407::1": true, "198.51.100.8": false, "2001:db8::1": false} {
		if e.inside(netip.MustParseAddr(addr), 9001) != want {
			t.Errorf("%s is inside: %v", addr, !want)
		}
	}
}

// TestRefusedAddressesTakeNoPlace: of a name's many addresses, those that the policy refuses
// do not keep the exit from the one that it allows.
func TestRefusedAddressesTakeNoPlace(t *testing.T) {
	var zone []string
	for i := range maxTried {
		zone = append(zone, fmt.Sprintf("many.test. A 127.0.0.%d", 10+i))
	}
	zone = append(zone, "many.test. A 127.0.0.1")
	_, c := setup(t, exitOf(t, true, zone, "accept 127.0.0.1:*", "reject *:*"), nil)
	s, err := dial(t, c, "many.test", echoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// TestPrivateLookups: an exit does not reveal private addresses that its
// operator's name server knows.
func TestPrivateLookups(t *testing.T) {
	zone := []string{"db.test. A 10.0.0.5", "both.test. A 10.0.0.5", "both.test. A 203.0.113.5", "5.0.0.10.in-addr.arpa. PTR db.test.", "5.113.0.203.in-addr.arpa. PTR web.test.",
		"6.113.0.203.in-addr.arpa. PTR a\\000b.test.", "six.test. AAAA fd00::5", "sixes.test. AAAA fd00::5", "sixes.test. AAAA 2001:db8::5",
		cell.ReverseName(netip.MustParseAddr("fd00::5")) + ". PTR six.test."}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for _, private := range []bool{false, true} {
		_, c := setup(t, exitOf(t, private, zone, "accept *:*"), nil)
		for _, x := range []struct {
			name   string
			public []string // answers that are not private
			all    []string
		}{
			{"db.test", nil, []string{"10.0.0.5"}}, {"both.test", []string{"203.0.113.5"}, []string{"10.0.0.5", "203.0.113.5"}},
			{"10.0.0.5", nil, []string{"db.test"}}, {"203.0.113.5", []string{"web.test"}, []string{"web.test"}}, {"203.0.113.6", nil, nil},
			{"not.an.address.in-addr.arpa", nil, nil},
			{"six.test", nil, []string{"fd00::5"}}, {"sixes.test", []string{"2001:db8::5"}, []string{"fd00::5", "2001:db8::5"}},
			{cell.ReverseName(netip.MustParseAddr("fd00::5")), nil, []string{"six.test"}},
		} {
			want := x.public
			if private {
				want = x.all
			}
			as, err := stream.Resolve(ctx, c.Last(), x.name)
			var got []string
			for _, a := range as {
				if a.Addr.IsValid() {
					got = append(got, a.Addr.String())
				} else {
					got = append(got, a.Name)
				}
			}
			if !slices.Equal(got, want) || (err == nil) != (want != nil) {
				t.Errorf("%s, private %v: %v %v", x.name, private, got, err)
			}
		}
	}
}

// TestPrivateNames: a BEGIN for a name reveals no more of private addresses than a lookup.
func TestPrivateNames(t *testing.T) {
	zone := []string{"db.test. A 10.0.0.5", "both.test. A 10.0.0.5", "both.test. A 203.0.113.5", "web.test. A 203.0.113.5", "six.test. AAAA fd00::5"}
	for _, private := range []bool{false, true} {
		_, c := setup(t, exitOf(t, private, zone, "reject *:*"), nil)
		for _, x := range []struct {
			name        string
			reason      cell.EndReason
			told, whole string // without and with private networks
		}{
			{"none.test", cell.EndResolveFailed, "", ""}, {"db.test", cell.EndResolveFailed, "", "10.0.0.5"}, {"six.test", cell.EndResolveFailed, "", "fd00::5"},
			{"both.test", cell.EndExitPolicy, "203.0.113.5", "10.0.0.5"}, {"web.test", cell.EndExitPolicy, "203.0.113.5", "203.0.113.5"},
		} {
			if private && x.whole != "" {
				x.reason, x.told = cell.EndExitPolicy, x.whole
			}
			_, err := dial(t, c, x.name, 80)
			wantEnd(t, err, x.reason)
			var end *stream.EndError
			if errors.As(err, &end) && end.Addr.IsValid() != (x.told != "") || x.told != "" && end.Addr.String() != x.told {
				t.Errorf("%s, private %v: the address told is %v", x.name, private, end.Addr)
			}
		}
	}
}

// TestOwnAddresses: unless the operator leaves private networks to the lines, the policy
// refuses each of the relay's own addresses, of both families, whatever form it has.
func TestOwnAddresses(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("::ffff:198.51.100.7"), netip.MustParseAddr("198.51.100.8"), netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("2001:db8:1::8")}
	for _, private := range []bool{false, true} {
		p, err := WholePolicy([]string{"accept *:*"}, PolicyOptions{Private: private, IPv6: true, Own: own})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range own {
			if p.Allows(a.Unmap(), 80) != private {
				t.Errorf("private: %v; %v is allowed: %v", private, a, !private)
			}
		}
		for _, other := range []string{"198.51.100.6", "2001:db8::6", "2001:db8::", "2001:db8:1::9"} {
			if !p.Allows(netip.MustParseAddr(other), 80) {
				t.Errorf("private: %v; %s is refused", private, other)
			}
		}
	}
}

// TestWholePolicy: rules that are always refused come before the lines, and after
// lines without a last rule comes the default policy, as tor(1) says.
func TestWholePolicy(t *testing.T) {
	all := []string{"reject *:25", "reject *:119", "reject *:135-139", "reject *:445", "reject *:563", "reject *:1214", "reject *:4661-4666",
		"reject *:6346-6429", "reject *:6699", "reject *:6881-6999", "accept *:*"}
	private := []string{"reject 0.0.0.0/8:*", "reject 169.254.0.0/16:*", "reject 127.0.0.0/8:*", "reject 192.168.0.0/16:*", "reject 10.0.0.0/8:*", "reject 172.16.0.0/12:*"}
	own := PolicyOptions{Own: []netip.Addr{netip.MustParseAddr("::ffff:198.51.100.7"), netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("2001:db8::7")}}
	for _, x := range []struct {
		lines []string
		o     PolicyOptions
		want  []string // about IPv4
		six   string   // what the summary says of IPv6
	}{
		{[]string{"accept *:443"}, PolicyOptions{Private: true}, append([]string{"accept *:443"}, all...), "reject 1-65535"},
		{[]string{"accept *:443", "reject *:*"}, PolicyOptions{Private: true, IPv6: true}, []string{"accept *:443", "reject *:*"}, "accept 443"},
		{[]string{"accept *:*"}, own, slices.Concat(private, []string{"reject 198.51.100.7:*", "accept *:*"}), "reject 1-65535"},
		{[]string{"default"}, PolicyOptions{IPv6: true}, append(slices.Clone(private), all...), "reject 25,119,135-139,445,563,1214,4661-4666,6346-6429,6699,6881-6999"},
		{[]string{"reject *:80,default"}, PolicyOptions{Private: true}, append([]string{"reject *:80"}, all...), "reject 1-65535"},
		{[]string{"accept 192.0.2.0/24:80", "reject 192.0.2.7:80", "reject *:*", "accept *:1"}, PolicyOptions{Private: true}, []string{"accept 192.0.2.0/24:80", "reject *:*"}, "reject 1-65535"},
		{[]string{"reject *4:*"}, PolicyOptions{Private: true, IPv6: true}, []string{"reject *:*"}, "reject 25,119,135-139,445,563,1214,4661-4666,6346-6429,6699,6881-6999"},
	} {
		p, err := WholePolicy(x.lines, x.o)
		if err != nil {
			t.Fatal(err)
		}
		var four []string
		for _, r := range p {
			if !r.Six && !(r.Net.IsValid() && r.Net.Addr().Is6()) {
				four = append(four, r.String())
			}
		}
		if !slices.Equal(four, x.want) {
			t.Errorf("%q:\n%q, want\n%q", x.lines, four, x.want)
		}
		if six := p.Summarize(true).String(); six != x.six {
			t.Errorf("%q: IPv6: %s, want %s", x.lines, six, x.six)
		}
		if err := (&Config{Policy: p}).Check(); err != nil {
			t.Error(x.lines, err)
		}
	}
	ten := netip.MustParseAddrPort("192.0.2.1:25")
	if p, err := WholePolicy([]string{"accept *:443"}, PolicyOptions{}); err != nil || p.Allows(ten.Addr(), ten.Port()) {
		t.Error("what no line speaks about is let out", err)
	}
	if err := (&Config{Policy: netdoc.ExitPolicy{{Accept: true, Ports: netdoc.PortRange{Lo: 443, Hi: 443}}}}).Check(); err == nil {
		t.Error("a policy without a last rule")
	}
}
