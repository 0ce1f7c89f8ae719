package torrc

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestEveryOption: the table has each option of C tor once, and says something of it.
func TestEveryOption(t *testing.T) {
	text, err := os.ReadFile("testdata/options.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, text1, _ := strings.Cut(string(text), "\n")
	want := map[string]bool{}
	for _, name := range strings.Fields(text1) {
		want[name] = true
	}
	if len(want) < 350 {
		t.Fatalf("%d options", len(want))
	}
	seen := map[string]bool{}
	Options(func(o *Option) bool {
		switch {
		case seen[o.Name]:
			t.Errorf("%s is there twice", o.Name)
		case !want[o.Name]:
			t.Errorf("C tor has no %s", o.Name)
		case o.Key == "" && o.Why == "" || (o.Key == "") != (o.Role == 0):
			t.Errorf("%s: neither a setting nor a reason", o.Name)
		}
		seen[o.Name] = true
		return true
	})
	for name := range want {
		if !seen[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
}

func settings(d *Document) map[string][]string {
	out := map[string][]string{}
	for _, s := range d.Settings {
		out[s.Key] = s.Values
	}
	return out
}

func translated1(t *testing.T, text string, role Role) *Document {
	t.Helper()
	lines, err := Lines(Source{"torrc", []byte(text)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Translate(lines, role)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		text string
		role Role
		want map[string][]string
	}{
		{"SocksPort 9050\nsocksport 127.0.0.1:9150 IsolateDestAddr\nSocksPort unix:\"/run/x y\"", Proxy, map[string][]string{"socks": {"9050", "127.0.0.1:9150 IsolateDestAddr", `unix:"/run/x y"`}}},
		{"SocksPort 0\nDNSPort 5353 # x", Proxy, map[string][]string{"socks": {""}, "dns": {"5353"}}},
		{"Bridge 192.0.2.1:443\nUseBridges 0", Proxy, map[string][]string{}},
		{"MaxCircuitDirtiness 10\nMaxCircuitDirtiness 2 minutes", Proxy, map[string][]string{"max-circuit-dirtiness": {"2m0s"}}},
		{"ConnectionPadding 1\nReducedConnectionPadding 1", Proxy, map[string][]string{"padding": {"reduced"}}},
		{"CircuitPadding 1\nReducedCircuitPadding 1\nVanguardsLiteEnabled 0", Proxy, map[string][]string{"circuit-padding": {"reduced"}, "vanguards": {"off"}}},
		{"ReducedConnectionPadding 1\nConnectionPadding auto", Proxy, map[string][]string{"padding": {"reduced"}}},
		{"ConnectionPadding 0\nReducedConnectionPadding 1\nReducedCircuitPadding 1\nCircuitPadding 1\nCircuitPadding 0", Proxy, map[string][]string{"padding": {"off"}, "circuit-padding": {"off"}}},
		{"CircuitPadding 0\nCircuitPadding 1", Proxy, map[string][]string{"circuit-padding": {"auto"}}},
		{"CircuitPadding 0\nVanguardsLiteEnabled 1", Proxy, map[string][]string{"circuit-padding": {"off"}, "vanguards": {"lite"}}},
		{"ExitNodes {us},$AAAA~x, 192.0.2.0/24", Proxy, map[string][]string{"exit-nodes": {"{us}", "$AAAA~x", "192.0.2.0/24"}, "strict-nodes": {"true"}}},
		{"EntryNodes a\nStrictNodes 0\nMiddleNodes b", Proxy, map[string][]string{"entry-nodes": {"a"}, "middle-nodes": {"b"}, "strict-nodes": {"true"}}},
		{"ExcludeNodes a\nExcludeNodes b\nStrictNodes 0", Proxy, map[string][]string{"exclude-nodes": {"a", "b"}, "strict-nodes": {"false"}}},
		{"NodeFamily $A,B, {us}\nNodeFamily c,d,", Proxy, map[string][]string{"node-family": {"$A,B,{us}", "c,d"}}},
		{"ORPort 443 NoListen\nORPort 9001 NoAdvertise\nAddress 192.0.2.9", Relay, map[string][]string{"orport": {"9001"}, "address": {"192.0.2.9:443"}}},
		{"ORPort [2001:db8::1]:9001\nAddress 2001:db8::1", Relay, map[string][]string{"orport": {"[2001:db8::1]:9001"}, "address": {"[2001:db8::1]:9001"}}},
		{"ORPort 9001\nExitRelay 1", Relay, map[string][]string{"orport": {"9001"}, "exit-policy": {"default"}}},
		{"ExitPolicy accept *:80, reject *:*\nExitRelay 0", Relay, map[string][]string{}},
		{"ExitPolicy accept *:80, reject *:*\nExitPolicyRejectPrivate 0", Relay, map[string][]string{"exit-policy": {"accept *:80", "reject *:*"}, "exit-private": {"true"}}},
		{"BandwidthRate 1.5 MBytes\nMaxAdvertisedBandwidth 8 Mbits", Relay, map[string][]string{"bandwidth-rate": {"1572864"}, "max-advertised-bandwidth": {"1048576"}}},
		{"MyFamily $A,\\\n  $B", Relay, map[string][]string{"family": {"$A", "$B"}}},
		{"V3AuthVotingInterval 1 hour\nConsensusParams a=1 b=2", Authority, map[string][]string{"voting-interval": {"1h0m0s"}, "param": {"a=1", "b=2"}}},
		{"Log [handshake]debug-err file x", Proxy, map[string][]string{"log-level": {"debug"}, "log-file": {"x"}}},
		{"Log notice file \"/var/log/x y\" # \"z\"\nLog warn stderr", Proxy, map[string][]string{"log-level": {"info"}, "log-file": {"/var/log/x y"}}},
		{"SocksPort 9050 IsolateDestAddrs noIsolateSOCKSAuths SessionGroup=3 CacheDNS NoCacheIPv4DNS PreferIPv6Automap", Proxy, map[string][]string{"socks": {"9050 IsolateDestAddr noIsolateSOCKSAuth SessionGroup=3"}}},
		{"DNSPort 53 NoIPv6Traffic SessionGroup=3\nHTTPTunnelPort 8118 OnionTrafficOnly", Proxy, map[string][]string{"dns": {"53 SessionGroup=3"}, "http": {"8118 OnionTrafficOnly"}}},
		{"TransPort 192.0.2.1:9040 IsolateDestPort\nTransPort 0\nTransProxyType TPROXY", Proxy, map[string][]string{"trans": {"192.0.2.1:9040 IsolateDestPort"}, "trans-proxy-type": {"tproxy"}}},
		{"AutomapHostsOnResolve 1\nAutomapHostsSuffixes .onion,.exit, .test\nVirtualAddrNetworkIPv4 10.192.0.0/10\nVirtualAddrNetworkIPv6 [FE80::]/10", Proxy, map[string][]string{"automap-hosts-on-resolve": {"true"},
			"automap-hosts-suffixes": {".onion", ".test"}, "virtual-addr-network-ipv4": {"10.192.0.0/10"}, "virtual-addr-network-ipv6": {"[FE80::]/10"}}},
		{"SafeSocks 1\nTestSocks 1\nTransProxyType default", Proxy, map[string][]string{"safe-socks": {"true"}, "test-socks": {"true"}, "trans-proxy-type": {"redirect"}}},
	} {
		if got := settings(translated1(t, c.text, c.role)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	onions := translated1(t, "HiddenServiceDir a\nHiddenServicePort 80\nHiddenServicePort 81 8080\nHiddenServiceDir b\nHiddenServicePort 22 unix:/x\nHiddenServicePort 23 192.0.2.1", Proxy).Onions
	if len(onions) != 2 || len(onions[0]) != 2 || !reflect.DeepEqual(onions[0][1].Values, []string{"80=127.0.0.1:80", "81=127.0.0.1:8080"}) ||
		!reflect.DeepEqual(onions[1][1].Values, []string{"22=unix:/x", "23=192.0.2.1:23"}) {
		t.Errorf("onions: %v", onions)
	}
	onions = translated1(t, "HiddenServiceDir a\nHiddenServiceAllowUnknownPorts 1", Proxy).Onions
	if last := onions[0][len(onions[0])-1]; last.Key != "allow-unknown-ports" || !reflect.DeepEqual(last.Values, []string{"true"}) {
		t.Errorf("unknown ports: %v", onions)
	}
	onions = translated1(t, "HiddenServiceDir a\nHiddenServicePoWDefensesEnabled 1\nHiddenServicePoWQueueRate 20\nHiddenServicePoWQueueBurst 30", Proxy).Onions
	for i, want := range []string{"a", "true", "20", "30"} {
		if len(onions) != 1 || len(onions[0]) != 4 || !reflect.DeepEqual(onions[0][i].Values, []string{want}) {
			t.Fatalf("proofs of work: %v", onions)
		}
	}
}

// TestSingleOnion: all services give up their anonymity if two lines say so, wherever
// these stand, and none does if one says so.
func TestSingleOnion(t *testing.T) {
	const services = "HiddenServiceDir a\nHiddenServicePort 80\nHiddenServiceDir b\nHiddenServicePort 81\n"
	for text, want := range map[string]bool{
		"HiddenServiceSingleHopMode 1\nHiddenServiceNonAnonymousMode 1\n" + services:                               true,
		services + "HiddenServiceNonAnonymousMode 1\nHiddenServiceSingleHopMode 1":                                 true,
		"HiddenServiceSingleHopMode 1\n" + services:                                                                false,
		services + "HiddenServiceNonAnonymousMode 1":                                                               false,
		"HiddenServiceSingleHopMode 1\nHiddenServiceNonAnonymousMode 1\nHiddenServiceSingleHopMode 0\n" + services: false,
	} {
		d := translated1(t, text, Proxy)
		if len(d.Onions) != 2 {
			t.Fatalf("%q: %d services", text, len(d.Onions))
		}
		for _, o := range d.Onions {
			last := o[len(o)-1]
			if got := last.Key == "single-onion" && reflect.DeepEqual(last.Values, []string{"host-can-be-found"}); got != want {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
		if lost := len(d.Notes) > 0; lost == want {
			t.Errorf("%q: notes %v", text, d.Notes)
		}
	}
}

// TestNothingDropped: each line is a setting or a note.
func TestNothingDropped(t *testing.T) {
	Options(func(o *Option) bool {
		for _, value := range []string{"0", "1", "9001", "10 minutes", "192.0.2.1", "x", "notice stdout", "1 MB", "accept *:*"} {
			for _, role := range []Role{Proxy, Relay, Authority} {
				lines := []Line{{"torrc", 1, "HiddenServiceDir", "d", false}, {"torrc", 2, o.Name, value, false}}
				d, err := Translate(lines, role)
				if err != nil {
					if !strings.Contains(err.Error(), "torrc:2: "+o.Name) {
						t.Errorf("%s %s: %v", o.Name, value, err)
					}
					continue
				}
				found := 0
				for _, list := range append(d.Onions, d.Settings) {
					for _, s := range list {
						for _, l := range s.From {
							if l.Number == 2 {
								found++
							}
						}
					}
				}
				for _, n := range d.Notes {
					if n.Line.Number == 2 && (n.Why != "" || n.Same) {
						found++
					}
				}
				if found == 0 {
					t.Errorf("%s %s for %s: dropped", o.Name, value, role)
				}
			}
		}
		return true
	})
}

func TestLines(t *testing.T) {
	included := 0
	include := func(p string) ([]Source, error) {
		switch p {
		case "/etc/a":
			return []Source{{"/etc/a/1", []byte("A 1\n%include /etc/b")}, {"/etc/a/2", []byte("B 2")}}, nil
		case "/etc/b":
			return []Source{{"/etc/b", []byte("\nC 3")}}, nil
		case "/loop":
			return []Source{{"/loop", []byte("%include /loop")}}, nil
		case "/tree":
			if included++; included > 10*maxFiles {
				t.Fatal("files without end are included")
			}
			return []Source{{"/tree", []byte(strings.Repeat("%include /tree\n", 10))}}, nil
		}
		return nil, errors.New("not there")
	}
	got, err := Lines(Source{"torrc", []byte("# x\n\"%include /etc/a\nD \"a # b\" # c\nE a\\\n # between\nb\n+F 1\n/G\n%include /etc/a")}, include)
	want := []Line{{"torrc", 2, "\"%include", "/etc/a", false}, {"torrc", 3, "D", "a # b", false}, {"torrc", 4, "E", "a b", false}, {"torrc", 7, "F", "1", true}, {"torrc", 8, "/G", "", false},
		{"/etc/a/1", 1, "A", "1", false}, {"/etc/b", 2, "C", "3", false}, {"/etc/a/2", 1, "B", "2", false}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	for _, text := range []string{"%include /none", "%include /loop", "%include /tree"} {
		if _, err := Lines(Source{"torrc", []byte(text)}, include); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "%include") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRoles(t *testing.T) {
	for text, want := range map[string]Role{
		"": Proxy, "ORPort 9001": Relay, "ORPort 9001\nSocksPort 9050": Relay | Proxy, "ORPort 0": Proxy,
		"AuthoritativeDirectory 1\nORPort 9001": Authority, "HiddenServiceDir x": Proxy | Onion, "ORPort 1\nSocksPort 0": Relay,
	} {
		lines, err := Lines(Source{"torrc", []byte(text)}, nil)
		if got := Roles(lines); err != nil || got != want {
			t.Errorf("%q: %v, want %v (%v)", text, got, want, err)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add("SocksPort 9050\nORPort 9001 NoListen\nAddress x\nHiddenServicePort 80\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := Lines(Source{"torrc", []byte(text)}, nil)
		if err != nil {
			return
		}
		for _, r := range []Role{Proxy, Relay, Authority} {
			_, _ = Translate(lines, r)
		}
		Roles(lines)
	})
}

// TestLineBreak: what a value has behind a line break becomes no line of the new file.
func TestLineBreak(t *testing.T) {
	for _, text := range []string{`HiddenServiceNumIntroductionPoints "3\nname = 1"`, `NoSuchOption "a\nsocks = 1"`, `UseBridges "a\rb"`} {
		lines, err := Lines(Source{"torrc", []byte("HiddenServiceDir /a\n" + text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err := Translate(lines, Proxy); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "torrc:2") {
			t.Errorf("%s: %+v %v", text, doc, err)
		}
	}
}

// TestUnreadable: a line that Chive's file cannot repeat is an error, which names it. In a
// comment of the torrc it does no harm.
func TestUnreadable(t *testing.T) {
	for _, text := range []string{"ExitNodes J\xfcrgen", "ClientOnionAuthDir /a\x1b[31m", "No\x07Such x", "ContactInfo a\x00b", `EntryNodes "a\x7fb"`} {
		lines, err := Lines(Source{"torrc", []byte("# J\xfcrgen\x07\n" + text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err := Translate(lines, Proxy); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "torrc:2") {
			t.Errorf("%q: %+v %v", text, doc, err)
		}
		if _, err := Translate(lines[1:], Proxy); err != nil {
			t.Error("a comment:", err)
		}
	}
}

// TestLostFlags: a flag that a port of Chive's does not have is named, with a reason if
// there is one; a flag that says what Chive always does is not.
func TestLostFlags(t *testing.T) {
	if n := translated1(t, "CircuitBuildTimeout 10", Proxy).Notes; len(n) != 1 || n[0].Same || !strings.Contains(n[0].Why, "learning") {
		t.Errorf("learning: %+v", n)
	}
	d := translated1(t, "SocksPort 9050 UseDNSCache NoCacheDNS\nSocksPort 9051 NoCacheDNS RelaxDirModeCheck\nDNSPort 53 PreferIPv6\nTransProxyType pf-divert", Proxy)
	var got []string
	for _, n := range d.Notes {
		if !n.Same {
			got = append(got, n.Why)
		}
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "without the port's UseDNSCache, because a client keeps no addresses of names") ||
		!strings.HasPrefix(got[1], "without the port's PreferIPv6") || !strings.HasPrefix(got[2], "only REDIRECT and TPROXY") {
		t.Errorf("notes: %q", got)
	}
}
