package devp2p

import (
	"strings"
	"testing"
)

func TestParsePolicy(t *testing.T) {
	for _, p := range Policies {
		got, err := ParsePolicy(string(p))
		if err != nil || got != p {
			t.Errorf("%q: %q, %v", p, got, err)
		}
	}
	_, err := ParsePolicy("only-onions")
	if err == nil || !strings.Contains(err.Error(), "only-onion,") {
		t.Errorf("an error that names no policy: %v", err)
	}
	if OnlyOnion.AllowsClearnet() || Clearnet.AllowsOnion() {
		t.Error("a policy allows what it must not")
	}
}
