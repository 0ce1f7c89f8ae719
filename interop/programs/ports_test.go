package programs

import (
	"net/netip"
	"testing"
)

// parsePort returns the port of an address.
func parsePort(t *testing.T, address string) int {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return int(a.Port())
}
