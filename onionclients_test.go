package chive

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestClientKeyForms: a client's two halves have C tor's forms.
func TestClientKeyForms(t *testing.T) {
	service := newOnionKey(t)
	k, err := NewOnionClientKey(service.Address())
	if err != nil {
		t.Fatal(err)
	}
	if host := strings.TrimSuffix(service.Address(), ".onion"); !strings.HasPrefix(k.Text(), host+":descriptor:x25519:") || k.Address() != service.Address() {
		t.Errorf("its text does not begin with the address")
	}
	again, err := ParseOnionClientKey(" " + k.Text() + "\n")
	if err != nil || again.Text() != k.Text() || again.Client() != k.Client() {
		t.Errorf("the secret half: %v", err)
	}
	if c, err := ParseOnionClient(k.Client().String()); err != nil || c != k.Client() || !strings.HasPrefix(c.String(), "descriptor:x25519:") {
		t.Errorf("the public half: %v", err)
	}
	for _, text := range []string{"", k.Client().String(), k.Text() + ":", k.Text()[1:], k.Text()[:len(k.Text())-1], strings.Replace(k.Text(), "x25519", "rsa", 1)} {
		got := k
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, ErrConfig) || got != k {
			t.Errorf("a secret half of %d bytes: %v", len(text), err)
		}
	}
	for _, text := range []string{"", k.Text(), "descriptor:x25519:", "descriptor:x25519:" + strings.Repeat("A", 52)} {
		if _, err := ParseOnionClient(text); !errors.Is(err, ErrConfig) {
			t.Errorf("a public half of %d bytes: %v", len(text), err)
		}
	}
	if _, err := NewOnionClientKey("example.com"); !errors.Is(err, ErrConfig) {
		t.Error("no onion address:", err)
	}
}

// TestAuthorizedClients: clients come and go while the service runs, and no mistake opens it.
func TestAuthorizedClients(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "shop"), openClient(t)
	l, err := c.Listen(t.Context(), OnionConfig{KeyDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, b, filed := newClientKey(t).Client(), newClientKey(t).Client(), newClientKey(t).Client()
	want := func(clients ...OnionClient) {
		t.Helper()
		if got := l.AuthorizedClients(); !slices.Equal(got, clients) || l.Status().AuthorizedClients != len(clients) {
			t.Errorf("%v, not %v", got, clients)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(err error, says string) {
		t.Helper()
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, and not %s", err, says)
		}
	}
	want()
	must(l.AuthorizeClients(a, b, a))
	want(a, b)
	must(l.AuthorizeClients(b))
	want(a, b)
	if cfg := l.Config(); !slices.Equal(cfg.AuthorizedClients, []OnionClient{a, b}) {
		t.Error("the configuration has others")
	}
	refused(l.AuthorizeClients(OnionClient{}), "no key")
	refused(l.RemoveClients(a, filed), "not in AuthorizedClients")
	refused(l.RemoveClients(a, b), "everybody could connect")
	want(a, b)
	must(l.RemoveClients(a))
	want(b)
	// A file's client is authorized until the file goes.
	must(os.MkdirAll(filepath.Join(dir, "authorized_clients"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "authorized_clients", "b.auth"), []byte(b.String()+"\n"), 0o600))
	refused(l.RemoveClients(b), "a file of KeyDir")
	want(b)
	must(l.AuthorizeClients(a))
	want(b, a)
	// Only Reload opens the service.
	must(os.Remove(filepath.Join(dir, "authorized_clients", "b.auth")))
	cfg := l.Config()
	cfg.AuthorizedClients = nil
	must(l.Reload(cfg))
	want()
	must(l.Close())
	if err := l.AuthorizeClients(a); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestClientKeysAtRunTime: a client's keys come and go, beside those of its configuration.
func TestClientKeysAtRunTime(t *testing.T) {
	configured, added := newClientKey(t), newClientKey(t)
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir(), ClientOnionAuth: []string{configured.Text()}})
	if err != nil {
		t.Fatal(err)
	}
	has := func(keys ...OnionClientKey) {
		t.Helper()
		got := c.inner.OnionKeys()
		if len(got) != len(keys) {
			t.Errorf("%d keys, not %d", len(got), len(keys))
		}
		for _, k := range keys {
			if !got.Has(k.k) {
				t.Error("a key is missing")
			}
		}
	}
	other, err := NewOnionClientKey(added.Address())
	if err != nil {
		t.Fatal(err)
	}
	clash, err := NewOnionClientKey(configured.Address())
	if err != nil {
		t.Fatal(err)
	}
	has(configured)
	for _, k := range []OnionClientKey{added, configured, other} { // the last takes the first one's place
		if err := c.Isolated().AddOnionClientKey(k); err != nil {
			t.Error(err)
		}
	}
	has(configured, other)
	for what, err := range map[string]error{
		"two keys for one service": c.AddOnionClientKey(clash),
		"there is no key":          c.AddOnionClientKey(OnionClientKey{}),
		"no key was added":         c.RemoveOnionClientKey(newOnionKey(t).Address()),
	} {
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, not %s", err, what)
		}
	}
	cfg := c.Config()
	cfg.StreamTimeout = 20e9
	if err := c.Reload(cfg); err != nil {
		t.Error(err)
	}
	has(configured, other) // they outlive a reload
	if err := errors.Join(c.RemoveOnionClientKey(other.Address()), c.RemoveOnionClientKey(configured.Address())); err != nil {
		t.Error(err)
	}
	has(configured) // it is in ClientOnionAuth, too
	if err := c.RemoveOnionClientKey(configured.Address()); !errors.Is(err, ErrConfig) {
		t.Error("a key of the configuration:", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.AddOnionClientKey(added)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
