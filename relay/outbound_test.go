package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
)

// TestOutbound: the more special addresses count before the others, for each family by itself.
func TestOutbound(t *testing.T) {
	a, b, six := netip.MustParseAddr("5.6.7.5"), netip.MustParseAddr("5.6.7.6"), netip.MustParseAddr("2a00:1::5")
	cfg := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}, ExitPolicy: []string{"accept *:*"}, IPv6Exit: true, OutboundBindAddress: []string{a.String(), "[2a00:1::5]"}}
	both := netaddr.Sources{V4: a, V6: six}
	for i, c := range []struct {
		change       func()
		or, exit, pt netaddr.Sources
	}{
		{func() {}, both, both, both},
		{func() { cfg.OutboundBindAddressOR = []string{b.String()} }, netaddr.Sources{V4: b, V6: six}, both, both},
		{func() { cfg.OutboundBindAddressExit = []string{b.String()} }, netaddr.Sources{V4: b, V6: six}, netaddr.Sources{V4: b, V6: six}, both},
		{func() { cfg.OutboundBindAddress, cfg.OutboundBindAddressPT = nil, []string{six.String()} }, netaddr.Sources{V4: b}, netaddr.Sources{V4: b}, netaddr.Sources{V6: six}},
	} {
		c.change()
		in, err := cfg.inner(finding.addresses)
		if err != nil {
			t.Fatal(err)
		}
		if in.Outbound.OR != c.or || in.Exit.Source != c.exit || in.Outbound.PT != c.pt {
			t.Errorf("%d: %+v, exits %+v", i, in.Outbound, in.Exit.Source)
		}
		// The exit itself refuses streams to its source addresses. The policy is in the
		// descriptor, which does not tell everybody of them.
		if text := fmt.Sprint(in.Exit.Policy); strings.Contains(text, "5.6.7.5") || strings.Contains(text, "2a00:1::5") || strings.Contains(text, b.String()) || !slices.Contains(in.Addresses(), c.exit.V4) && c.exit.V4.IsValid() {
			t.Errorf("%d: own addresses %v, policy %s", i, in.Addresses(), text)
		}
	}
	for field, set := range map[string]func(*Config, ...string){
		"OutboundBindAddress": func(c *Config, s ...string) { c.OutboundBindAddress = s }, "OutboundBindAddressOR": func(c *Config, s ...string) { c.OutboundBindAddressOR = s },
		"OutboundBindAddressExit": func(c *Config, s ...string) { c.OutboundBindAddressExit = s }, "OutboundBindAddressPT": func(c *Config, s ...string) { c.OutboundBindAddressPT = s },
	} {
		for _, list := range [][]string{{"x"}, {"0.0.0.0"}, {a.String(), b.String()}} {
			c := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}}
			set(&c, list...)
			if _, err := c.inner(finding.addresses); !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), field+": ") {
				t.Errorf("%s %v: %v", field, list, err)
			}
		}
	}
}
