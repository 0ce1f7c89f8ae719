package programs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	lnd "github.com/lightningnetwork/lnd/tor"
)

// TestLnd: lnd's controller authenticates, adds an onion, checks it, loses its connection, and gets the same address by the key
// that it stored.
func TestLnd(t *testing.T) {
	hash := run(t, nil, asTor(t), "--hush", "--hash-password", "a secret")
	for _, way := range []struct{ line, password string }{
		{"CookieAuthentication 1", ""},
		{"HashedControlPassword " + hash, "a secret"},
	} {
		lndWith(t, way.line, way.password)
	}
}

func lndWith(t *testing.T, line, password string) {
	tor := start(t, line)
	c := lnd.NewController(tor.Control, "", password)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckOnionService(); !errors.Is(err, lnd.ErrServiceNotCreated) {
		t.Errorf("a service without one: %v", err)
	}
	port := parsePort(t, page(t, "by lnd"))
	store := lnd.NewOnionFile(filepath.Join(t.TempDir(), "key"), 0o600, false, nil)
	add := func() string {
		t.Helper()
		a, err := c.AddOnion(lnd.AddOnionConfig{Type: lnd.V3, VirtualPort: 80, TargetPorts: []int{port}, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckOnionService(); err != nil {
			t.Error(err)
		}
		return a.OnionService
	}
	address := add()
	if got := fetch(t, tor.Socks, "http://"+address+"/"); got != "by lnd" {
		t.Errorf("got %q", got)
	}
	if err := c.Reconnect(); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckOnionService(); !errors.Is(err, lnd.ErrServiceNotCreated) {
		t.Errorf("after the connection: %v", err)
	}
	if again := add(); again != address {
		t.Errorf("%s became %s", address, again)
	}
	if got := fetch(t, tor.Socks, "http://"+address+"/"); got != "by lnd" {
		t.Errorf("got %q", got)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(tor.Cookie); password == "" && err != nil {
		t.Error(err)
	}
	p := &lnd.ProxyNet{SOCKS: tor.Socks, DNS: "127.0.0.1:1", StreamIsolation: true}
	conn, err := p.Dial("tcp", lab.Target[len("http://"):len(lab.Target)-len("/bytes/1000000")], 60e9)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
