package relay

import (
	"errors"
	"strings"
	"testing"
)

// TestNameservers: a mistake in them is told also while the relay is no exit; a reload may
// make it one.
func TestNameservers(t *testing.T) {
	cfg := Config{Nickname: "a", ORPort: []string{"192.0.2.1:9001"}, Nameservers: []string{"192.0.2.53"}}
	if err := cfg.Check(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Nameservers") {
		t.Error(err)
	}
	cfg.Nameservers[0] += ":53"
	if err := cfg.Check(); err != nil && strings.Contains(err.Error(), "Nameservers") {
		t.Error(err)
	}
}
