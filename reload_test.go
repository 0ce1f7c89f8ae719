package chive

import (
	"errors"
	"strings"
	"testing"
)

// TestWayToNetworkStays: what a client connects through (bridges, transports, an upstream proxy)
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
		"Bridges":                func(c *Config) { c.Bridges = []string{"192.0.2.2:1"} },
		"ClientTransportPlugins": func(c *Config) { c.ClientTransportPlugins = []string{"t socks5 127.0.0.1:9"} },
		"Proxy":                  func(c *Config) { c.Proxy = "socks5://127.0.0.1:9" },
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
