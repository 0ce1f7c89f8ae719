package chive

import (
	"errors"
	"strings"
	"testing"
)

// TestWayToNetworkStays: whether a client connects through bridges, or an upstream proxy,
// does not change while it runs, however often it is asked to: the running transports and the
// links through them go on, and the refusal names what would have changed.
func TestWayToNetworkStays(t *testing.T) {
	cfg := Config{Network: silent(t), DataDir: t.TempDir(), Bridges: []string{"192.0.2.1:1"}}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, change := range map[string]func(*Config){
		"Bridges": func(c *Config) { c.Bridges = nil },
		"Proxy":   func(c *Config) { c.Proxy = "socks5://127.0.0.1:9" },
	} {
		for range 3 {
			next := c.Config()
			change(&next)
			if err := c.Reload(next); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
			if got := c.Config(); len(got.Bridges) != 1 || got.Bridges[0] != "192.0.2.1:1" || len(got.ClientTransportPlugins) != 0 || got.Proxy != "" {
				t.Errorf("%s: it has changed: %v", name, got)
			}
		}
	}
	select {
	case <-c.Done():
		t.Errorf("it ended: %v", c.Err())
	default:
	}
}

// TestReloadBridges: a client takes other bridges and transports while it runs, and one without bridges
// gets none.
func TestReloadBridges(t *testing.T) {
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir(), Bridges: []string{"192.0.2.1:1 " + strings.Repeat("AB", 20)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cfg := c.Config()
	cfg.Bridges = []string{"x 192.0.2.2:1 " + strings.Repeat("CD", 20), "192.0.2.3:1 " + strings.Repeat("EF", 20)}
	if err := c.Reload(cfg); !errors.Is(err, ErrConfig) || len(c.Status().Bridges) != 1 {
		t.Errorf("a transport is missing: %v", err)
	}
	cfg.ClientTransportPlugins = []string{"x socks5 127.0.0.1:9"}
	if err := c.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if b := c.Status().Bridges; len(b) != 2 || b[0].Transport != "x" || b[0].Fingerprint != strings.Repeat("CD", 20) || b[1].Fingerprint != strings.Repeat("EF", 20) {
		t.Errorf("%+v", b)
	}
	for _, g := range c.Status().Guards {
		if g.Usable != (g.Fingerprint != strings.Repeat("AB", 20)) {
			t.Errorf("a guard: %+v", g)
		}
	}
	without := openClient(t)
	cfg = without.Config()
	cfg.Bridges = []string{"192.0.2.1:1"}
	if err := without.Reload(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Bridges") {
		t.Errorf("a client without bridges: %v", err)
	}
}
