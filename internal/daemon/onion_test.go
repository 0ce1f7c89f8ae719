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
	file := "[[onion]]\nkey-dir = \"/a\"\nname = \"shop\"\nbackend = \"" + k.Address() + "\"\n[[onion]]\nkey-dir = \"/b\"\nhide-address = true\nbackend = [\"" + k.Address() + "\"]\n"
	for name, c := range map[string]struct {
		file string
		args []string
		dirs []string
		want string // an error
	}{
		"tables":                  {file, nil, []string{"/a", "/b"}, ""},
		"options and tables":      {"key-dir = \"/c\"\n" + file, []string{k.Address()}, []string{"/c", "/a", "/b"}, ""},
		"options without backend": {"key-dir = \"/c\"\n" + file, nil, nil, "no backend"},
		"the same directory":      {strings.Replace(file, "/b", "/a", 1), nil, nil, "two onion services have the key-dir /a"},
		"a table without backend": {file + "[[onion]]\nkey-dir = \"/d\"\n", nil, nil, "[[onion]] number 3: onion service: no backend"},
		"a service's table":       {"[[onion]]\nkey-dir = \"/d\"\nport = \"80\"\n", nil, nil, "port"},
	} {
		s := NewBalanceSettings(&c.args)
		err := s.ReadFile("chive.toml", []byte(c.file))
		var all []hosting
		if err == nil {
			all, err = s.role.(*onionRole).hostings()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var dirs []string
		for _, h := range all {
			dirs = append(dirs, h.KeyDir)
			if h.single || !slices.Equal(h.Backends, []string{k.Address()}) || len(h.Ports) != 0 || h.hide != (h.KeyDir == "/b") || h.KeyDir == "/a" && h.Name != "shop" {
				t.Errorf("%s: %+v", name, h)
			}
		}
		if !slices.Equal(dirs, c.dirs) {
			t.Errorf("%s: %q", name, dirs)
		}
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
