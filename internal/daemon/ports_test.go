package daemon

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/torrc"
)

// TestPortFlags: each port has its own flags, which win over the options for all ports.
func TestPortFlags(t *testing.T) {
	s, err := parse(t, `
socks = ["9150 NoIsolateClientAddr IsolateClientProtocol", "unix:/run/s SessionGroup=1", ""]
http = "8118 IsolateDestAddr"
safe-socks = true
warn-unsafe-socks = false
test-socks = true
trans-proxy-type = "tproxy"
`)
	if err != nil || s.Check() != nil {
		t.Fatal(err, s.Check())
	}
	p := &proxyOf(s).Ports
	ports, err := p.all()
	if err != nil || len(ports) != 3 {
		t.Fatal(ports, err)
	}
	for i, want := range []socks.Config{
		{Isolate: isolation.ByProtocol},
		{Isolate: isolation.ByClientAddr, Group: "group 1"},
		{Isolate: isolation.ByClientAddr | isolation.ByDestAddr},
	} {
		want.SafeSOCKS, want.TestSOCKS, want.TProxy, want.MaxConns = true, true, true, 1024
		got := p.config(nil, nil, nil)
		ports[i].Apply(&got)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("port %d: %+v, want %+v", i, got, want)
		}
	}
	if ports[1].number != 1 || ports[2].number != 0 || ports[2].kind.String() != "http" {
		t.Errorf("names: %+v", ports)
	}
}

// TestPortMistakes: a mistake in a port's flags names the option.
func TestPortMistakes(t *testing.T) {
	for file, want := range map[string]string{
		`socks = "9050 Isolate"`:                                    `f:1: socks: "Isolate" is no flag`,
		"isolate-dest-addr = true\nhttp = \"80 NoIsolateDestAddr\"": "f:2: http: NoIsolateDestAddr: isolate-dest-addr holds for all ports",
		`trans-proxy-type = "ipfw"`:                                 "ipfw",
		`automap-hosts-suffixes = [".onion", ".exit"]`:              "f:1: automap-hosts-suffixes: entry 2",
		`virtual-addr-network-ipv4 = "10.0.0.0/17"`:                 "f:1: virtual-addr-network-ipv4: a virtual network",
		`virtual-addr-network-ipv4 = "10.0.0.0"`:                    "f:1: virtual-addr-network-ipv4",
		`virtual-addr-network-ipv6 = "[fd00::]/112"`:                "f:1: virtual-addr-network-ipv6: a virtual network",
		`socks = ""`: "no port is open",
	} {
		s, err := parse(t, file)
		if err == nil {
			err = s.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
	if s, err := parse(t, `trans = "9040"`); err == nil {
		err = s.Check()
		if linux := runtime.GOOS == "linux"; linux != (err == nil) || !linux && !strings.Contains(err.Error(), "needs Linux") {
			t.Errorf("a transparent port: %v", err)
		}
	}
}

// TestImportedFlags: the flags that a torrc's line keeps are flags of Chive's ports.
func TestImportedFlags(t *testing.T) {
	flags := "IsolateClientAddr IsolateClientProtocol IsolateDestAddr IsolateDestPort IsolateSOCKSAuth KeepAliveIsolateSOCKSAuth IPv4Traffic IPv6Traffic " +
		"DNSRequest OnionTraffic PreferIPv6 PreferSOCKSNoAuth ExtendedErrors SessionGroup=2 CacheDNS UseDNSCache PreferIPv6Automap RelaxDirModeCheck"
	for option, kind := range map[string]socks.Kind{"SocksPort": socks.SOCKSPort, "HTTPTunnelPort": socks.HTTPPort, "DNSPort": socks.DNSPort, "TransPort": socks.TransPort} {
		if kind == socks.TransPort && runtime.GOOS != "linux" {
			continue
		}
		lines, err := torrc.Lines(torrc.Source{Name: "torrc", Text: []byte(option + " 9050 " + flags + "\n" + option + " 9051 OnionTrafficOnly")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := torrc.Translate(lines, torrc.Proxy)
		if err != nil || len(d.Settings) != 1 || len(d.Settings[0].Values) != 2 {
			t.Fatal(d, err)
		}
		for _, text := range d.Settings[0].Values {
			if _, err := socks.ParsePort(kind, text); err != nil {
				t.Errorf("%s: %v", option, err)
			}
		}
		if !strings.Contains(d.Settings[0].Values[0], "IsolateDestPort") {
			t.Errorf("%s: no flags were kept", option)
		}
	}
}
