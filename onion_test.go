package chive

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/hsservice"
)

// openClient returns a client that reaches nobody.
func openClient(t *testing.T) *Client {
	t.Helper()
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestDirectoryAfterClient: a service's directory is free again when its client has ended,
// also if nobody closed the listener.
func TestDirectoryAfterClient(t *testing.T) {
	a, b, dir := openClient(t), openClient(t), filepath.Join(t.TempDir(), "shop")
	l, err := a.Listen(t.Context(), OnionConfig{KeyDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.Listen(t.Context(), OnionConfig{KeyDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), again.Close()); err != nil { // the first must not give back what is another's now
		t.Fatal(err)
	}
	if _, err := a.Listen(t.Context(), OnionConfig{KeyDir: dir}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if again, err = b.Listen(t.Context(), OnionConfig{KeyDir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestOneProgramHosts: a service's directory is for one listener at a time, and free
// again after Close and after a Listen that failed.
func TestOneProgramHosts(t *testing.T) {
	a, b, dir := openClient(t), openClient(t), filepath.Join(t.TempDir(), "shop")
	if _, err := a.Listen(t.Context(), OnionConfig{KeyDir: dir, MaxStreams: -1}); !errors.Is(err, ErrConfig) {
		t.Errorf("an option that cannot be: %v", err)
	}
	l, err := a.Listen(t.Context(), OnionConfig{KeyDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{a, b} {
		if _, err := c.Listen(t.Context(), OnionConfig{KeyDir: dir}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), dir) {
			t.Errorf("a second time: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.Listen(t.Context(), OnionConfig{KeyDir: dir})
	if err != nil {
		t.Fatal("after Close:", err)
	}
	if again.Address() != l.Address() {
		t.Error("another address")
	}
	for range 2 {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOnionKeyTwice: two services of one key would replace each other's descriptors.
func TestOnionKeyTwice(t *testing.T) {
	c := openClient(t)
	first, err := c.Listen(t.Context(), OnionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cfg := OnionConfig{Key: first.Key()}
		if _, err := c.Listen(t.Context(), cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "already") {
			t.Error(err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if first, err = c.Listen(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	first.Close()
}

// TestOnionReload: what may change changes, and the rest is refused by name.
func TestOnionReload(t *testing.T) {
	c, dir := openClient(t), filepath.Join(t.TempDir(), "shop")
	cfg := OnionConfig{KeyDir: dir, Ports: []int{80}}
	l, err := c.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st := l.Status(); st.AuthorizedClients != 0 || st.Address != l.Address() || st.Published || st.PoW != nil {
		t.Errorf("%+v", st)
	}
	if _, err := hsservice.AddClient(dir, "alice", "", func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	cfg.MaxStreams, cfg.ExportCircuitID, cfg.IntroDoSDefense = 5, "haproxy", true
	cfg.PoWDefense = true
	if err := l.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if st := l.Status(); st.AuthorizedClients != 1 || st.PoW == nil || len(st.PoW.Refused) == 0 {
		t.Errorf("%+v", st)
	}
	for want, change := range map[string]func(*OnionConfig){
		"KeyDir":                  func(c *OnionConfig) { c.KeyDir += "2" },
		"Ports":                   func(c *OnionConfig) { c.Ports = nil },
		"ExportCircuitID":         func(c *OnionConfig) { c.ExportCircuitID = "proxy" },
		"introduction point":      func(c *OnionConfig) { c.IntroductionPoints = 21 },
		"burst":                   func(c *OnionConfig) { c.IntroDoSRate = 1000 },
		"bursts of 2500":          func(c *OnionConfig) { c.PoWQueueRate = 3000 },
		"target":                  func(c *OnionConfig) { c.Targets = map[int]string{81: "example.com:80"} },
		"more targets of port 82": func(c *OnionConfig) { c.MoreTargets = map[int][]string{82: {"127.0.0.1:1"}} },
		"target \"example.com:81\"": func(c *OnionConfig) {
			c.Targets = map[int]string{82: "127.0.0.1:1"}
			c.MoreTargets = map[int][]string{82: {"127.0.0.1:2", "example.com:81"}}
		},
		"1001 targets of port 82": func(c *OnionConfig) {
			c.Targets = map[int]string{82: "127.0.0.1:1"}
			c.MoreTargets = map[int][]string{82: slices.Repeat([]string{"127.0.0.1:2"}, 1000)}
		},
	} {
		other := cfg
		change(&other)
		if err := l.Reload(other); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "authorized_clients", "bob.auth"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Reload(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "bob.auth") {
		t.Errorf("a client's key that cannot be read: %v", err)
	}
	if st := l.Status(); st.AuthorizedClients != 1 || l.Config().MaxStreams != 5 {
		t.Errorf("after the errors: %+v", st)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Reload(cfg); err == nil {
		t.Error("a closed listener takes settings")
	}
}

// TestTooManyClients: a descriptor that no directory takes is refused by Listen, with
// what to lessen.
func TestTooManyClients(t *testing.T) {
	c := openClient(t)
	cfg := OnionConfig{IntroductionPoints: 16}
	for range 192 {
		cfg.AuthorizedClients = append(cfg.AuthorizedClients, newClientKey(t).Client())
	}
	if l, err := c.Listen(t.Context(), cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "at most") {
		l.Close()
		t.Errorf("%v", err)
	}
	cfg.IntroductionPoints = 3
	l, err := c.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestCircuitAddr(t *testing.T) {
	if got := hsservice.CircuitAddr(0x1_0001_029a); got != netip.MustParseAddr("fc00:dead:beef:4dad::1:29a") {
		t.Error(got)
	}
}

// TestMoreTargets: all targets of a port are told to the service.
func TestMoreTargets(t *testing.T) {
	cfg := OnionConfig{Targets: map[int]string{80: "127.0.0.1:1", 81: "unix:/x"}, MoreTargets: map[int][]string{80: {"127.0.0.1:2", "unix:/y"}}}
	live, err := cfg.live()
	if err != nil || len(live.Targets) != 2 || len(live.Targets[81]) != 1 ||
		!slices.Equal(live.Targets[80], []hsservice.Target{{Network: "tcp", Address: "127.0.0.1:1"}, {Network: "tcp", Address: "127.0.0.1:2"}, {Network: "unix", Address: "/y"}}) {
		t.Errorf("%v %v", live.Targets, err)
	}
}
