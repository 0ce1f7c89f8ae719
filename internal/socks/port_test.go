package socks

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/stream"
)

// TestParsePort: each flag, and its opposite, changes what it says and nothing else.
func TestParsePort(t *testing.T) {
	by := isolation.ByClientAddr | isolation.ByProtocol
	for _, c := range []struct {
		kind Kind
		text string
		addr string
		want Config
	}{
		{SOCKSPort, "", "", Config{Isolate: by}},
		{SOCKSPort, "9050", "9050", Config{Isolate: by}},
		{SOCKSPort, " 127.0.0.1:9050  isolatedestaddr IsolateDestPort", "127.0.0.1:9050", Config{Isolate: by | isolation.ByDestAddr | isolation.ByDestPort}},
		{SOCKSPort, "9050 NoIsolateClientAddr noisolateclientprotocol", "9050", Config{}},
		{DNSPort, "53 NoIsolateClientAddr SessionGroup=7", "53", Config{Isolate: isolation.ByProtocol, Group: "group 7"}},
		{SOCKSPort, `unix:"/run/my socks" KeepAliveIsolateSOCKSAuth`, "unix:/run/my socks", Config{Isolate: by, KeepAlive: true}},
		{HTTPPort, "unix:/run/h NoIsolateSOCKSAuth", "unix:/run/h", Config{Isolate: by, ShareAuth: true}},
		{SOCKSPort, "9050 NoIPv4Traffic PreferIPv6", "9050", Config{Isolate: by, Bars: BarIPv4, PreferIPv6: true}},
		{SOCKSPort, "9050 NoIPv6Traffic NoOnionTraffic NoDNSRequest", "9050", Config{Isolate: by, Bars: BarIPv6 | BarOnions | BarNames}},
		{SOCKSPort, "9050 OnionTrafficOnly", "9050", Config{Isolate: by, Bars: BarIPv4 | BarIPv6 | BarNames}},
		{SOCKSPort, "9050 PreferSOCKSNoAuth ExtendedErrors", "9050", Config{Isolate: by, PreferNoAuth: true, ExtendedErrors: true}},
	} {
		p, err := ParsePort(c.kind, c.text)
		if err != nil || p.Addr != c.addr {
			t.Errorf("%q: %q, %v", c.text, p.Addr, err)
		}
		got := Config{Isolate: by}
		p.Apply(&got)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, want %+v", c.text, got, c.want)
		}
	}
}

// TestFlagsCanBeUndone: "No" before a flag makes a configuration what it was.
func TestFlagsCanBeUndone(t *testing.T) {
	for _, f := range flags {
		for kind := range kindNames {
			if f.kinds&kind == 0 || f.name == onionOnly || kind == TransPort && canTrans() != nil {
				continue
			}
			addr := "9050"
			if modes[f.name] != 0 {
				addr = "unix:/run/s"
			}
			p, err := ParsePort(kind, addr+" "+f.name+" No"+f.name)
			off, offErr := ParsePort(kind, addr+" No"+f.name)
			if err != nil || offErr != nil {
				t.Errorf("%s %s: %v, %v", kind, f.name, err, offErr)
				continue
			}
			var both, one Config
			p.Apply(&both)
			off.Apply(&one)
			if !reflect.DeepEqual(both, one) || p.Mode != off.Mode {
				t.Errorf("%s %s: %+v, want %+v", kind, f.name, both, one)
			}
		}
	}
}

func TestPortMistakes(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		text, want string
	}{
		{SOCKSPort, "localhost:9050", "is not a port"},
		{SOCKSPort, "9050 NoSuchFlag", "is no flag"},
		{SOCKSPort, "unix:/run/my socks", "in quotes"},
		{SOCKSPort, "9050 NoOnionTrafficOnly", "is no flag"},
		{SOCKSPort, "9050 SessionGroup=x", "one number"},
		{SOCKSPort, "9050 SessionGroup=1 SessionGroup=2", "one number"},
		{SOCKSPort, "9050 SessionGroup=4294967296", "one number"},
		{SOCKSPort, "9050 GroupWritable", "unix sockets only"},
		{SOCKSPort, "9050 OnionTrafficOnly NoOnionTraffic", "nothing through"},
		{SOCKSPort, "9050 NoIPv4Traffic NoIPv6Traffic", "no address that one could have"},
		{SOCKSPort, "9050 KeepAliveIsolateSOCKSAuth NoIsolateSOCKSAuth", "needs IsolateSOCKSAuth"},
		{DNSPort, "53 IPv6Traffic", "no meaning for a dns port"},
		{DNSPort, "unix:/run/dns", "needs an IP address"},
		{HTTPPort, "8118 ExtendedErrors", "no meaning for a http port"},
	} {
		if _, err := ParsePort(c.kind, c.text); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.kind, c.text, err, c.want)
		}
	}
}

// TestShares: a port says what its own flags do not keep apart.
func TestShares(t *testing.T) {
	p, err := ParsePort(SOCKSPort, "9050 NoIsolateDestAddr IsolateDestPort")
	if err != nil || p.Shares != isolation.ByDestAddr {
		t.Errorf("%b, %v", p.Shares, err)
	}
}

// TestSocketMode: the flags of a socket's file open it to others, and nothing else does.
func TestSocketMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such permissions")
	}
	for flags, want := range map[string]os.FileMode{"": 0o600, " GroupWritable": 0o660, " WorldWritable": 0o666, " GroupWritable WorldWritable": 0o666, " GroupWritable NoWorldWritable": 0o660} {
		path := filepath.Join(t.TempDir(), "s")
		p, err := ParsePort(SOCKSPort, "unix:"+path+flags)
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", flags, st.Mode(), err)
		}
		l.Close()
	}
}

// TestKeysOfPorts: streams share a circuit as the flags of their ports say.
func TestKeysOfPorts(t *testing.T) {
	key := func(name, flags, client, user string) isolation.Key {
		p, err := ParsePort(SOCKSPort, "9050 "+flags)
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Name: name, Isolate: isolation.ByClientAddr}
		p.Apply(&c)
		var auth isolation.Auth
		if user != "" {
			auth = isolation.NewAuth(user, "")
		}
		return newServer("socks", c).key("socks5", netip.MustParseAddr(client), auth)
	}
	for _, c := range []struct {
		a, b isolation.Key
		want bool
	}{
		{key("s0", "", "127.0.0.1", ""), key("s0", "", "127.0.0.1", ""), true},
		{key("s0", "", "127.0.0.1", ""), key("s1", "", "127.0.0.1", ""), false},
		{key("s0", "SessionGroup=1", "127.0.0.1", ""), key("s1", "SessionGroup=1", "127.0.0.1", ""), true},
		{key("s0", "SessionGroup=1", "127.0.0.1", ""), key("s1", "SessionGroup=2", "127.0.0.1", ""), false},
		{key("s0", "SessionGroup=1", "127.0.0.1", "u"), key("s1", "SessionGroup=1", "127.0.0.1", ""), false},
		{key("s0", "", "127.0.0.1", ""), key("s0", "", "127.0.0.2", ""), false},
		{key("s0", "NoIsolateClientAddr", "127.0.0.1", ""), key("s0", "NoIsolateClientAddr", "127.0.0.2", ""), true},
		{key("s0", "NoIsolateSOCKSAuth", "127.0.0.1", "u"), key("s0", "NoIsolateSOCKSAuth", "127.0.0.1", "v"), true},
	} {
		if c.a.MayShare(c.b) != c.want {
			t.Errorf("want %v", c.want)
		}
	}
	if k := key("s0", "KeepAliveIsolateSOCKSAuth", "127.0.0.1", "u"); !k.KeepAlive {
		t.Error("a stream with a user name does not prolong its circuit")
	}
	if k := key("s0", "KeepAliveIsolateSOCKSAuth", "127.0.0.1", ""); k.KeepAlive {
		t.Error("a stream without a user name prolongs its circuit")
	}
}

// TestBars: what a port's flags bar gets code 2, and never reaches the network; what
// they let through does, with the right family.
func TestBars(t *testing.T) {
	const onion = "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion"
	hosts := map[string]string{"IPv4": "192.0.2.7", "IPv6": "2001:db8::1", "name": "host.test", "onion": onion}
	addr := peer(t, echo)
	for _, c := range []struct {
		flags, through string
		family         stream.Family
	}{
		{"", "IPv4 IPv6 name onion", stream.AnyFamily},
		{"NoIPv4Traffic", "IPv6 name onion", stream.IPv6Only},
		{"NoIPv6Traffic", "IPv4 name onion", stream.IPv4Only},
		{"PreferIPv6", "IPv4 IPv6 name onion", stream.IPv6First},
		{"NoOnionTraffic", "IPv4 IPv6 name", stream.AnyFamily},
		{"NoDNSRequest", "IPv4 IPv6 onion", stream.AnyFamily},
		{"OnionTrafficOnly", "onion", stream.AnyFamily},
	} {
		t.Run(c.flags, func(t *testing.T) {
			n := &network{hosts: map[string]string{}}
			for _, h := range hosts {
				n.hosts[h] = addr
			}
			cfg := Config{Dialer: n}
			p, err := ParsePort(SOCKSPort, "0 "+c.flags)
			if err != nil {
				t.Fatal(err)
			}
			p.Apply(&cfg)
			port := start(t, NewSOCKS(cfg))
			asked := 0
			for kind, host := range hosts {
				conn := dialTCP(t, port)
				say(t, conn, 5, 1, 0)
				hear(t, conn, 5, 0)
				say(t, conn, request5(cmdConnect, host, 80)...)
				if strings.Contains(c.through, kind) {
					hear(t, conn, ok5...)
					asked++
				} else {
					hear(t, conn, 5, rep5NotAllowed)
				}
				conn.Close()
			}
			got := n.requests()
			if len(got) != asked {
				t.Errorf("%d requests reached the network, want %d", len(got), asked)
			}
			for _, r := range got {
				if r.Family != c.family {
					t.Errorf("family %d, want %d", r.Family, c.family)
				}
			}
		})
	}
}

// TestNamesOfAddressesBarred: a port that bars names bars the question for the name of an address, too, and
// lets through a lookup of an address that its flags allow.
func TestNamesOfAddressesBarred(t *testing.T) {
	for flags, barred := range map[string]bool{"": false, "NoDNSRequest": true, "OnionTrafficOnly": true} {
		n := &network{}
		cfg := Config{Dialer: n}
		p, err := ParsePort(SOCKSPort, "0 "+flags)
		if err != nil {
			t.Fatal(err)
		}
		p.Apply(&cfg)
		_, err = newServer("socks", cfg).resolve(t.Context(), true, Request{Host: "192.0.2.7"})
		if got := fault.Is(err, fault.Refused); got != barred {
			t.Errorf("%q: %v", flags, err)
		}
	}
}

// TestAnswersByFamily: a lookup gives no address that the port's flags bar, and the
// preferred family first.
func TestAnswersByFamily(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::1")
	for flags, want := range map[string]netip.Addr{"": four, "PreferIPv6": six, "NoIPv4Traffic": six} {
		n := &network{names: map[string][]Answer{"host.test": {{Addr: four, TTL: 1}, {Addr: six, TTL: 1}}}}
		cfg := Config{Dialer: n}
		p, err := ParsePort(SOCKSPort, "0 "+flags)
		if err != nil {
			t.Fatal(err)
		}
		p.Apply(&cfg)
		c := dialTCP(t, start(t, NewSOCKS(cfg)))
		say(t, c, 5, 1, 0)
		hear(t, c, 5, 0)
		say(t, c, request5(cmdResolve, "host.test", 0)...)
		hear(t, c, appendReply5(nil, rep5OK, Answer{Addr: want})...)
	}
}
