package options

import "github.com/chivenet/chive/internal/netaddr"

// Sources reads the source addresses of a field, one of each family at most; those of other
// count for the families of which the field has none.
func Sources(field string, list []string, other netaddr.Sources) (netaddr.Sources, error) {
	s, err := netaddr.ParseSources(list)
	if err != nil {
		return s, Wrong(field, "%w", err)
	}
	return s.Or(other), nil
}

// outboundBind is the row of source addresses; what says what comes from them.
func outboundBind(key, field, zero, what string) Option {
	return Option{Key: key, Field: field, Zero: zero, Help: "`ADDR` of this machine that " + what + ", one of IPv4 and one of IPv6",
		Each: func(s string) error { _, err := netaddr.ParseSource(s); return err }}
}

// asOutbound is the default of the more special rows of source addresses.
const asOutbound = "those of outbound-bind-address"
