package tord

import (
	"path/filepath"
	"testing"
)

// TestRulesStay: rules of MAPADDRESS outlive the client that obeys them: another option, or a time without a network,
// must not send streams where a controller did not want them.
func TestRulesStay(t *testing.T) {
	r := start(t, deadNetwork+"SocksPort 0\nControlPort unix:DIR/all\n")
	r.out.wait(t, `Opened Control listener connection \(ready\) on \S*/all`)
	c := dial(t, "unix", filepath.Join(r.dir, "all"))
	is := func(ask, want string) {
		t.Helper()
		if got := c.ask(ask); got != want {
			t.Errorf("%s: %q, want %q", ask, got, want)
		}
	}
	const rules = "250+address-mappings/control=\na.example b.example NEVER\n.\n250 OK"
	is("AUTHENTICATE", "250 OK")
	is("MAPADDRESS a.example=b.example", "250 a.example=b.example")
	is("GETINFO address-mappings/control", rules)
	is("SETCONF NumEntryGuards=2", "250 OK")
	is("GETINFO address-mappings/control", rules)
	is("SETCONF DisableNetwork=1", "250 OK")
	is("SETCONF DisableNetwork=0", "250 OK")
	is("GETINFO address-mappings/control", rules)
	is("MAPADDRESS a.example=a.example", "250 a.example=a.example")
	is("SETCONF NumEntryGuards=3", "250 OK")
	is("GETINFO address-mappings/control", "250-address-mappings/control=\n250 OK")
}
