package torrc

import (
	"reflect"
	"testing"
)

// TestOutbound: source addresses go over, each line and each family.
func TestOutbound(t *testing.T) {
	for _, c := range []struct {
		text string
		role Role
		want map[string][]string
	}{
		{"OutboundBindAddress 192.0.2.5\nOutboundBindAddress [2001:db8::5]\nOutboundBindAddressExit 192.0.2.6\nOutboundBindAddressOR 192.0.2.7\nOutboundBindAddressPT [2001:db8::8]", Relay, map[string][]string{
			"outbound-bind-address": {"192.0.2.5", "2001:db8::5"}, "outbound-bind-address-exit": {"192.0.2.6"}, "outbound-bind-address-or": {"192.0.2.7"}, "outbound-bind-address-pt": {"2001:db8::8"}}},
		{"OutboundBindAddress 192.0.2.5\nOutboundBindAddressExit 192.0.2.6\nOutboundBindAddressOR 2001:db8::5", Proxy, map[string][]string{"outbound-bind-address": {"192.0.2.5"}, "outbound-bind-address-or": {"2001:db8::5"}}},
		{"OutboundBindAddress 0.0.0.0\nOutboundBindAddress [::]", Relay, map[string][]string{}},
	} {
		if got := settings(translated1(t, c.text, c.role)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	if _, err := Translate([]Line{{"torrc", 1, "OutboundBindAddress", "eth0", false}}, Relay); err == nil {
		t.Error("eth0 is taken for an address")
	}
}
