package chive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
)

func TestConfigCheck(t *testing.T) {
	private, err := chive.ParseNetwork([]byte("name = \"lab\"\n[[authority]]\nnickname = \"a\"\nv3ident = \"0101010101010101010101010101010101010101\"\nrsa = \"0202020202020202020202020202020202020202\"\norport = [\"127.0.0.1:1\"]\n[testing]\nallow_private_addresses = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	good := []chive.Config{
		{},
		{ExitNodes: []string{"$F533C81CEF0BC0267857C99B2F471ADF249FA232", "moria1", "192.0.2.0/24"}, StrictNodes: true},
		{ClientRejectInternalAddresses: chive.SwitchOff, ClientDNSRejectInternalAddresses: chive.SwitchOn},
		{ClientDNSRejectInternalAddresses: chive.SwitchOff, Network: private},
		{OutboundBindAddress: []string{"192.0.2.1", "[2001:db8::1]"}, OutboundBindAddressPT: []string{"192.0.2.2"}},
		{Proxy: "socks4://192.0.2.1:1080", ReachableAddresses: []string{"*:443"}, MapAddress: []string{"*.a *.b"}},
		{NodeFamilies: []string{"192.0.2.0/24, moria1", "a"}},
		{GeoIPFile: "/nonexistent/geoip", GeoIPv6File: "/nonexistent/geoip6"}, // nobody asks for countries
		{MaxCircuitDirtiness: time.Minute, NumEntryGuards: 2, CGO: chive.SwitchOff, Padding: chive.PaddingReduced},
	}
	good = append(good, chive.Config{
		Bridges:                []string{"192.0.2.1:443", "obfs4 192.0.2.2:443 F533C81CEF0BC0267857C99B2F471ADF249FA232 cert=x iat-mode=0"},
		ClientTransportPlugins: []string{"obfs4 exec /usr/bin/obfs4proxy"},
	})
	for i, c := range good {
		if err := c.Check(); err != nil {
			t.Errorf("config %d: %v", i, err)
		}
	}
	for want, c := range map[string]chive.Config{
		"ExitNodes: ":                                 {ExitNodes: []string{"{deu}"}},
		"GeoIPFile: ":                                 {ExcludeNodes: []string{"{de}"}, GeoIPFile: "/nonexistent/geoip"},
		"GeoIPFile: stat /nonexistent/families":       {NodeFamilies: []string{"a,{de}"}, GeoIPFile: "/nonexistent/families"},
		"GeoIPFile: stat":                             {GeoIPExcludeUnknown: chive.SwitchOn, GeoIPFile: "/nonexistent/geoip"},
		"Proxy: it is not a URL":                      {Proxy: "192.0.2.1:1080"},
		"ReachableAddresses: \"x\" is not an address": {ReachableAddresses: []string{"*:80", "x"}},
		"OutboundBindAddress: \"x\" is no IP address": {OutboundBindAddress: []string{"x"}},
		"OutboundBindAddressOR: 192.0.2.1 and 192.0":  {OutboundBindAddressOR: []string{"192.0.2.1", "192.0.2.2"}},
		"OutboundBindAddressPT: :: is no address of":  {OutboundBindAddressPT: []string{"::"}},
		"MapAddress: entry 2: ":                       {MapAddress: []string{"a b", "c"}},
		"Bridges: the transport x runs already":       {Proxy: "socks5://192.0.2.1:1080", ClientTransportPlugins: []string{"x socks5 127.0.0.1:1"}},
		"NodeFamilies: ":                              {NodeFamilies: []string{"a,b", "192.0.2.0/24,two words"}},
		"ExcludeNodes: ":                              {ExcludeNodes: []string{""}},
		"MaxCircuitDirtiness: 1s is not from":         {MaxCircuitDirtiness: time.Second},
		"CircuitBuildTimeout: 1ms is not from":        {CircuitBuildTimeout: time.Millisecond},
		"StreamTimeout: 1h0m0s is not from":           {StreamTimeout: time.Hour},
		"NumEntryGuards: -1 is not from":              {NumEntryGuards: -1},
		"OnionMaxEffort: -2 is not from":              {OnionMaxEffort: -2},
		"NumDirectoryGuards: 99 is not from":          {NumDirectoryGuards: 99},
		"Bridges: entry 2: bridge line":               {Bridges: []string{"192.0.2.1:443", "example.com:443"}},
		"Bridges: a bridge needs the transport obfs4": {Bridges: []string{"obfs4 192.0.2.1:443"}},
		"ClientTransportPlugins: entry 1: ":           {ClientTransportPlugins: []string{"obfs4 /usr/bin/obfs4proxy"}},
		"EntryNodes: bridges are":                     {Bridges: []string{"192.0.2.1:443"}, EntryNodes: []string{"moria1"}},
		"Conflux: the value 0x7 is none of":           {Conflux: 7},
		"ClientDNSRejectInternalAddresses: off is":    {ClientDNSRejectInternalAddresses: chive.SwitchOff},
		"RequireOnionPQ: the option PQ":               {RequireOnionPQ: true, PQ: chive.PQOff},
		"PQ: the value 0x4 is none of":                {PQ: 4},
		"Padding: the value 0x9 is none of":           {Padding: 9},
	} {
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOptionNames(t *testing.T) {
	for _, s := range []chive.Switch{chive.SwitchAuto, chive.SwitchOn, chive.SwitchOff} {
		var got chive.Switch
		b, _ := s.MarshalText()
		if err := got.UnmarshalText(b); err != nil || got != s {
			t.Errorf("%s: %v %v", b, got, err)
		}
	}
	for _, p := range []chive.PQPolicy{chive.PQPrefer, chive.PQOff, chive.PQRequireOne, chive.PQRequireAll} {
		var got chive.PQPolicy
		b, _ := p.MarshalText()
		if err := got.UnmarshalText(b); err != nil || got != p {
			t.Errorf("%s: %v %v", b, got, err)
		}
	}
	for _, a := range []chive.Appearance{chive.AppearanceCommon, chive.AppearanceFast} {
		var got chive.Appearance
		b, _ := a.MarshalText()
		if err := got.UnmarshalText(b); err != nil || got != a {
			t.Errorf("%s: %v %v", b, got, err)
		}
	}
	for _, p := range []chive.Padding{chive.PaddingAuto, chive.PaddingReduced, chive.PaddingOff} {
		var got chive.Padding
		b, _ := p.MarshalText()
		if err := got.UnmarshalText(b); err != nil || got != p {
			t.Errorf("%s: %v %v", b, got, err)
		}
	}
	var s chive.Switch
	if err := s.UnmarshalText([]byte("maybe")); err == nil {
		t.Error("maybe is no switch")
	}
}

func TestDefaultDataDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	t.Setenv("HOME", "/home/u")
	if d, err := chive.DefaultDataDir(); err != nil || d != filepath.FromSlash("/state/chive") {
		t.Errorf("%s %v", d, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative") // not allowed by the XDG specification
	if d, err := chive.DefaultDataDir(); err != nil || d != filepath.FromSlash("/home/u/.local/state/chive") {
		t.Errorf("%s %v", d, err)
	}
	t.Setenv("HOME", "")
	if d, err := chive.DefaultDataDir(); err == nil {
		t.Errorf("without a home: %s", d)
	}
}

func TestNetworkFiles(t *testing.T) {
	dir := t.TempDir()
	text, err := chive.PublicNetwork().MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "public.toml")
	os.WriteFile(file, text, 0o600)
	n, err := chive.LoadNetwork(file)
	if err != nil || n.Name() != chive.PublicNetwork().Name() {
		t.Fatalf("%v %v", n, err)
	}
	if _, err := chive.LoadNetwork(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent file")
	}
	if _, err := chive.LoadNetwork(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	huge := filepath.Join(dir, "huge")
	f, _ := os.Create(huge)
	f.Truncate(1 << 30)
	f.Close()
	if _, err := chive.LoadNetwork(huge); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a huge file: %v", err)
	}
	if _, err := chive.ParseNetwork([]byte("nmae = 'x'")); err == nil || !strings.Contains(err.Error(), `did you mean "name"`) {
		t.Errorf("%v", err)
	}
}
