package daemon

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/hsservice"
)

// TestOnionPQ: services that cannot demand post-quantum clients are refused before anything
// starts, in every form in which they are configured.
func TestOnionPQ(t *testing.T) {
	k, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var none []string
	address := []string{k.Address()}
	for name, c := range map[string]struct {
		s    *Settings
		file string
		want string
	}{
		"fleet":         {NewOnionSettings(&none), "require-onion-pq = true\nkey-dir = \"/a\"\nport = \"80\"\nfleet = true\n", "several hosts"},
		"table":         {NewProxySettings(), "socks = \"\"\npq = \"require-all\"\n[[onion]]\nkey-dir = \"/a\"\nport = \"80\"\nfleet = true\n", "several hosts"},
		"frontend":      {NewBalanceSettings(&address), "require-onion-pq = true\nkey-dir = \"/a\"\n", "several hosts"},
		"backend":       {NewOnionSettings(&none), "require-onion-pq = true\nkey-dir = \"/a\"\nport = \"80\"\nmaster = \"" + k.Address() + "\"\n", "masters"},
		"one host":      {NewOnionSettings(&none), "require-onion-pq = true\nkey-dir = \"/a\"\nport = \"80\"\n", ""},
		"not demanded":  {NewOnionSettings(&none), "pq = \"require-one\"\nkey-dir = \"/a\"\nport = \"80\"\nfleet = true\n", ""},
		"not its doing": {NewProxySettings(), "socks = \"9050\"\nrequire-onion-pq = true\n", ""},
	} {
		err := c.s.ReadFile("chive.toml", []byte(c.file))
		if err == nil {
			err = c.s.Check()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
