package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/options"
)

// TestBalanceSettings: a frontend's arguments are the addresses of its backends; without
// any, or with an argument that is no address, it does not start.
func TestBalanceSettings(t *testing.T) {
	k, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	s := NewBalanceSettings(&args)
	r := s.role.(*onionRole)
	if _, err := r.balance.config(*r.args); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("without a key: %v", err)
	}
	r.balance.KeyDir = "/nowhere"
	if _, err := r.balance.config(*r.args); err == nil || !strings.Contains(err.Error(), "no backend") {
		t.Errorf("without backends: %v", err)
	}
	args = []string{"example.com"}
	if _, err := r.balance.config(*r.args); err == nil {
		t.Error("what is no address is a backend")
	}
	args = []string{k.Address()}
	if c, err := r.balance.config(*r.args); err != nil || !slices.Equal(c.Backends, args) || len(c.Ports) != 0 || c.Fleet {
		t.Errorf("%+v %v", c, err)
	}
	has := func(s *Settings, key string) bool {
		return slices.ContainsFunc(s.All(), func(v *options.Value) bool { return v.Key == key })
	}
	if has(s, "fleet") || has(s, "port") || !has(s, "backend") {
		t.Error("a frontend has options of a service")
	}
	if o := NewOnionSettings(&args); has(o, "backend") || !has(o, "fleet") || !has(o, "master") {
		t.Error("a service has options of a frontend")
	}
}
