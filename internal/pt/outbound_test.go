package pt

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/ptspec"
)

// TestOutboundEnvironment: a transport is told of the source addresses in pt-spec's form, which
// a transport of ours reads again.
func TestOutboundEnvironment(t *testing.T) {
	from := netaddr.Sources{V4: netip.MustParseAddr("192.0.2.5"), V6: netip.MustParseAddr("2001:db8::5")}
	for _, server := range []*Server{nil, {}} {
		p := &Process{cfg: ProcessConfig{Transports: []string{"a"}, StateDir: "/s", Outbound: from, Server: server}}
		vars := p.env([]string{"TOR_PT_OUTBOUND_BIND_ADDRESS_V4=192.0.2.9"})
		for _, want := range []string{"TOR_PT_OUTBOUND_BIND_ADDRESS_V4=192.0.2.5", "TOR_PT_OUTBOUND_BIND_ADDRESS_V6=[2001:db8::5]"} {
			if !slices.Contains(vars, want) {
				t.Errorf("%q lacks %s", vars, want)
			}
		}
		if server != nil {
			continue
		}
		got := map[string]string{}
		for _, kv := range vars {
			k, v, _ := strings.Cut(kv, "=")
			got[k] = v
		}
		if e, err := ptspec.ParseEnv(func(k string) string { return got[k] }); err != nil || e.Outbound != from {
			t.Errorf("%+v %v", e, err)
		}
		got["TOR_PT_OUTBOUND_BIND_ADDRESS_V4"] = "192.0.2.0/24"
		if _, err := ptspec.ParseEnv(func(k string) string { return got[k] }); err == nil || !strings.Contains(err.Error(), "TOR_PT_OUTBOUND_BIND_ADDRESS") {
			t.Error(err)
		}
	}
	p := &Process{cfg: ProcessConfig{Transports: []string{"a"}, StateDir: "/s"}}
	if vars := p.env(nil); slices.ContainsFunc(vars, func(s string) bool { return strings.Contains(s, "OUTBOUND") }) {
		t.Error(vars)
	}
}
