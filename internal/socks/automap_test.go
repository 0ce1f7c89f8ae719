package socks

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

const anOnion = "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion"

var (
	net4 = netip.MustParsePrefix("127.192.0.0/10")
	net6 = netip.MustParsePrefix("fd15:159f:ab53::/48")
)

func automap(t *testing.T, suffixes ...string) *Automap {
	t.Helper()
	a, err := NewAutomap(suffixes, net4, net6)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// mappedTo resolves a name, and returns its only answer.
func mappedTo(t *testing.T, d Dialer, host string, f stream.Family) netip.Addr {
	t.Helper()
	as, err := d.Resolve(t.Context(), Request{Host: host, Family: f})
	if err != nil || len(as) != 1 {
		t.Fatalf("%s: %v, %v", host, as, err)
	}
	return as[0].Addr
}

// TestAutomap: a name gets an address of its family, always the same one, and a connection to
// it goes to the name. Nobody outside is asked about either.
func TestAutomap(t *testing.T) {
	at := peer(t, func(c *net.TCPConn) { c.Write([]byte("hello")) })
	n := &network{hosts: map[string]string{"www." + anOnion: at}}
	d := automap(t, ".onion").Dialer(n)
	four := mappedTo(t, d, "WWW."+anOnion+".", stream.IPv4Only)
	six := mappedTo(t, d, "www."+anOnion, stream.IPv6Only)
	if !net4.Contains(four) || !net6.Contains(six) {
		t.Errorf("the addresses %s and %s", four, six)
	}
	if again := mappedTo(t, d, "www."+anOnion, stream.AnyFamily); again != four {
		t.Errorf("a second lookup gives %s, the first %s", again, four)
	}
	if other := mappedTo(t, d, anOnion, stream.IPv4Only); other == four {
		t.Error("two names have one address")
	}
	if len(n.requests()) != 0 {
		t.Errorf("the network was asked: %+v", n.requests())
	}
	for _, a := range []netip.Addr{four, six, netip.AddrFrom16(four.As16())} {
		c, err := d.Dial(t.Context(), Request{Host: a.String(), Port: 80})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for _, r := range n.requests() {
		if r.Host != "www."+anOnion || r.Port != 80 {
			t.Errorf("a connection went to %s port %d", r.Host, r.Port)
		}
	}
}

// TestAutomapKeepsIn: what belongs to the virtual networks and has no name, and lookups of
// their addresses, never reach the network; after Forget, neither does what had a name.
func TestAutomapKeepsIn(t *testing.T) {
	n := &network{}
	a := automap(t, ".onion")
	d := a.Dialer(n)
	had := mappedTo(t, d, anOnion, stream.IPv4Only)
	a.Forget()
	for _, addr := range []string{had.String(), "127.192.0.9", "::ffff:127.192.0.9", "fd15:159f:ab53::9"} {
		if _, err := d.Dial(t.Context(), Request{Host: addr, Port: 80}); err == nil || !strings.Contains(err.Error(), "virtual network") {
			t.Errorf("a connection to %s: %v", addr, err)
		}
		if _, err := d.ResolvePTR(t.Context(), netip.MustParseAddr(addr), Request{Host: addr}); ReasonOf(err) != NotFound {
			t.Errorf("the name of %s: %v", addr, err)
		}
	}
	if _, err := d.Resolve(t.Context(), Request{Host: "bad.onion"}); ReasonOf(err) != NotFound {
		t.Errorf("an address for no onion address: %v", err)
	}
	no := func(string) error { return errGone }
	if _, err := d.Resolve(t.Context(), Request{Host: anOnion, Permit: no}); err != errGone {
		t.Errorf("a port that does not let it through: %v", err)
	}
	if len(n.requests()) != 0 {
		t.Errorf("the network was asked: %+v", n.requests())
	}
	if again := mappedTo(t, d, anOnion, stream.IPv4Only); again == had {
		t.Error("after Forget, the name has the address of before")
	}
}

// ruled is a network with a rule of MapAddress.
type ruled struct {
	network
	rule map[string]string
}

func (m *ruled) StandsFor(host string) string {
	if to, ok := m.rule[host]; ok {
		return to
	}
	return host
}

// TestAutomapNames: which names are mapped, by suffix and by MapAddress.
func TestAutomapNames(t *testing.T) {
	rules := map[string]string{"irc.example": anOnion, "old." + anOnion: "host.example", "fixed.example": "192.0.2.1"}
	for _, c := range []struct {
		suffixes, host string
		want           bool
	}{
		{".onion", anOnion, true},
		{".ONION .test", "a.Test.", true},
		{".onion", "example.com", false},
		{".onion", "xonion", false},
		{".onion", "irc.example", true},
		{".onion", "old." + anOnion, false},
		{".", "example.com", true},
		{".", "localhost", false},
		{".", "printer.local", false},
		{".", "a.relay.exit", false},
		{".", "192.0.2.7", false},
		{".", "fixed.example", false},
		{"", anOnion, false},
	} {
		d := automap(t, strings.Fields(c.suffixes)...).Dialer(&ruled{rule: rules}).(*automapped)
		if got := d.Automaps(c.host); got != c.want {
			t.Errorf("suffixes %q, %s: %v", c.suffixes, c.host, got)
		}
	}
	n := &ruled{rule: rules}
	n.hosts = map[string]string{"irc.example": peer(t, func(*net.TCPConn) {})}
	d := automap(t, ".onion").Dialer(n)
	c, err := d.Dial(t.Context(), Request{Host: mappedTo(t, d, "irc.example", stream.IPv4Only).String(), Port: 1})
	if err != nil {
		t.Fatal(err) // the client applies the rule to the name
	}
	c.Close()
	for _, wrong := range []string{".exit", "x.EXIT", ".a b", ".."} {
		if CheckSuffix(wrong) == nil {
			t.Errorf("the suffix %q is taken", wrong)
		}
	}
	if (*Automap)(nil).Dialer(n) != Dialer(n) {
		t.Error("no Automap is not nothing")
	}
	for _, wrong := range [][2]string{{"127.0.0.0/17", "fd00::/8"}, {"fd00::/8", "fd00::/8"}, {"127.0.0.0/8", "fd00::/105"}, {"127.0.0.0/8", "10.0.0.0/8"}} {
		if _, err := NewAutomap(nil, netip.MustParsePrefix(wrong[0]), netip.MustParsePrefix(wrong[1])); err == nil {
			t.Errorf("the networks %v are taken", wrong)
		}
	}
}

// given gives a name an address.
func given(t *testing.T, v *virtual, name string) netip.Addr {
	t.Helper()
	a, err := v.addr(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestVirtualBound: the names that hold addresses have a bound; the one that was wanted longest
// ago makes room, and its address is nobody's then.
func TestVirtualBound(t *testing.T) {
	v := newVirtual(netip.MustParsePrefix("10.20.0.0/16"))
	v.most, v.next = 3, 1<<16-2
	var had []netip.Addr
	for i := range 3 {
		had = append(had, given(t, v, fmt.Sprint(i)))
	}
	v.name(had[0]) // used
	given(t, v, "more")
	if _, ok := v.name(had[1]); ok || len(v.byName) != 3 || len(v.byAddr) != 4 || v.order.Len() != 3 || v.rests.Len() != 1 {
		t.Errorf("the oldest is still there: %v", v.byName)
	}
	if name, ok := v.name(had[0]); !ok || name != "0" {
		t.Errorf("the address that was used leads to %q", name)
	}
	for i := range 1000 { // past those whose last byte is 0 or 255, and around the end
		a := given(t, v, fmt.Sprint("x", i))
		if b := a.As4(); !v.net.Contains(a) || b[3] == 0 || b[3] == 255 || slices.Contains(had, a) {
			t.Fatalf("the address %s", a)
		}
	}
}

// TestVirtualAddressesRest: whoever looks up as many names as the network has addresses gets no address
// that another program may still use, not even after a new identity; later, there are addresses again.
func TestVirtualAddressesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(netip.MustParsePrefix("10.20.0.0/16"))
		for _, forget := range []bool{false, true} {
			had := given(t, v, "bank.example")
			if forget {
				v.forget()
			}
			flood := func() (n int, err error) {
				for ; n < 1<<17; n++ {
					a, err := v.addr(fmt.Sprint(n, forget, ".attacker.example"))
					if err != nil {
						return n, err
					}
					if a == had {
						t.Fatalf("the name %d has the address of another, forget %v", n, forget)
					}
				}
				return n, nil
			}
			n, err := flood()
			if !fault.Is(err, fault.Resource) || n < maxResting-1 || len(v.byAddr) > maxVirtual+maxResting || v.rests.Len() > maxVirtual+maxResting {
				t.Fatalf("%d names, %d addresses, %d rest: %v", n, len(v.byAddr), v.rests.Len(), err)
			}
			if a := given(t, v, fmt.Sprint(n-1, forget, ".attacker.example")); !v.net.Contains(a) {
				t.Errorf("a name that has an address: %s", a)
			}
			time.Sleep(restTime - 1)
			if _, err := v.addr("new.example"); err == nil {
				t.Error("addresses rest too short a time")
			}
			time.Sleep(1 * time.Nanosecond)
			given(t, v, "new.example")
			time.Sleep(restTime)
			given(t, v, "newer.example")
		}
	})
}

// TestAutomapDNS: the DNS port answers names of onion services only with mapped addresses.
func TestAutomapDNS(t *testing.T) {
	port := startUDP(t, NewDNS(Config{Dialer: automap(t, ".onion").Dialer(dnsNetwork())}))
	m := exchange(t, port, ask(t, anOnion+".", dnsmessage.TypeA))
	if len(m.Answers) != 1 || !net4.Contains(netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)) || m.Answers[0].Header.TTL != mappedTTL {
		t.Errorf("A: %+v", m)
	}
	m = exchange(t, port, ask(t, anOnion+".", dnsmessage.TypeAAAA))
	if len(m.Answers) != 1 || !net6.Contains(netip.AddrFrom16(m.Answers[0].Body.(*dnsmessage.AAAAResource).AAAA)) {
		t.Errorf("AAAA: %+v", m)
	}
	if m = exchange(t, port, ask(t, "bad.onion.", dnsmessage.TypeA)); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("no onion address: %+v", m)
	}
	if m = exchange(t, port, ask(t, "Host.Test.", dnsmessage.TypeA)); len(m.Answers) != 1 || net4.Contains(netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)) {
		t.Errorf("a name of another suffix: %+v", m)
	}
	four, err := NewAutomap([]string{".onion"}, net4, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	port = startUDP(t, NewDNS(Config{Dialer: four.Dialer(dnsNetwork())}))
	if m = exchange(t, port, ask(t, anOnion+".", dnsmessage.TypeAAAA)); m.RCode != 0 || len(m.Answers) != 0 {
		t.Errorf("AAAA without a network: %+v", m)
	}
}

// TestAutomapSOCKS: a virtual address is no address that the program looked up elsewhere, and a
// lookup by a port without IPv4 gets an IPv6 one.
func TestAutomapSOCKS(t *testing.T) {
	n := &network{hosts: map[string]string{anOnion: peer(t, oneByte)}}
	d := automap(t, ".onion").Dialer(n)
	addr := mappedTo(t, d, anOnion, stream.IPv4Only)
	s := NewSOCKS(Config{Dialer: d, SafeSOCKS: true})
	if err := answerOf4(start(t, s), addr, 80); err != nil {
		t.Errorf("safe-socks and a virtual address: %v", err)
	}
	p, err := ParsePort(SOCKSPort, "9050 NoIPv4Traffic")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dialer: d}
	p.Apply(&cfg)
	as, err := NewSOCKS(cfg).resolve(t.Context(), false, Request{Host: anOnion, Family: cfg.wanted()})
	if err != nil || len(as) != 1 || !net6.Contains(as[0].Addr) {
		t.Errorf("without IPv4: %v, %v", as, err)
	}
}

func oneByte(c *net.TCPConn) { c.Write([]byte{1}) }

// answerOf4 connects by SOCKS 4, and reads a byte of the far end.
func answerOf4(at string, to netip.Addr, port uint16) error {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	b := to.As4()
	c.Write(append([]byte{4, 1, byte(port >> 8), byte(port), b[0], b[1], b[2], b[3]}, 0))
	reply := make([]byte, 9)
	if n, err := io.ReadFull(c, reply); err != nil || reply[1] != 0x5a {
		return fmt.Errorf("%d bytes, % x: %w", n, reply, cmp.Or(err, errGone))
	}
	return nil
}
