package chive

import (
	"errors"
	"strings"
	"testing"
)

// TestConfigIsCopied: a program may use its lists again after New, Listen and Reload. What
// it changes in them has no effect before Reload, and Reload sees it.
func TestConfigIsCopied(t *testing.T) {
	cfg := Config{Network: silent(t), DataDir: t.TempDir(), Bridges: []string{"192.0.2.1:1"}, ExcludeNodes: []string{"192.0.2.2"}}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bridge := func(want string) {
		t.Helper()
		if got := c.Config().Bridges[0]; got != want {
			t.Errorf("the bridge is %s", got)
		}
	}
	cfg.Bridges[0] = "192.0.2.3:1"
	bridge("192.0.2.1:1")
	c.Config().Bridges[0] = "192.0.2.3:1"
	bridge("192.0.2.1:1")
	if err := c.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	bridge("192.0.2.3:1")
	cfg.Bridges[0] = "192.0.2.1:1"
	bridge("192.0.2.3:1")
	if cfg.ExcludeNodes[0] = "192.0.2.4"; c.Config().ExcludeNodes[0] != "192.0.2.2" {
		t.Error("a list changes without Reload")
	}
}

// TestOnionConfigIsCopied: what a program does with its configuration later does not matter.
func TestOnionConfigIsCopied(t *testing.T) {
	c := openClient(t)
	first, err := c.Listen(t.Context(), OnionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	key := first.Key()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := OnionConfig{Key: key, Ports: []int{80}}
	l, err := c.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	cfg.Key = OnionKey{}
	cfg.Ports[0] = 81
	if got := l.Addr().String(); got != addr {
		t.Errorf("the port is that of %s", got)
	}
	if err := l.Reload(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Key, Ports") {
		t.Errorf("another key and port: %v", err)
	}
	if err := errors.Join(l.Reload(l.Config()), l.Reload(OnionConfig{Key: key, Ports: []int{80}})); err != nil {
		t.Error(err)
	}
}

// TestPortsStay: no ports are not all ports, whatever Reload gets.
func TestPortsStay(t *testing.T) {
	c := openClient(t)
	for _, x := range [][2][]int{{nil, {}}, {{}, nil}} {
		l, err := c.Listen(t.Context(), OnionConfig{Ports: x[0]})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Reload(OnionConfig{Ports: x[1]}); err != nil {
			t.Fatal(err)
		}
		if got := l.Config().Ports; (got == nil) != (x[0] == nil) {
			t.Errorf("%#v became %#v", x[0], got)
		}
		if live, err := l.next(&OnionConfig{Ports: x[1]}); err != nil || (live.Ports == nil) != (x[0] == nil) {
			t.Errorf("%#v became %#v: %v", x[0], live.Ports, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
