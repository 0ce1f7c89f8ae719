package interop

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// idleTor starts a tor without a network, and returns its control port.
func idleTor(t *testing.T, dir string, args ...string) *ctor.Control {
	t.Helper()
	tor, _, err := ctor.Find("")
	labtest.Need(t, "tor", err)
	port, torrc := filepath.Join(dir, "port"), filepath.Join(dir, "torrc")
	if err := os.WriteFile(torrc, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tor, append([]string{"-f", torrc, "--defaults-torrc", torrc, "--DataDirectory", filepath.Join(dir, "data"), "--DisableNetwork", "1", "--SocksPort", "0",
		"--ControlPort", "127.0.0.1:auto", "--ControlPortWriteToFile", port, "--CookieAuthentication", "1", "--CookieAuthFile", filepath.Join(dir, "cookie")}, args...)...)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func() {
		_ = cmd.Process.Kill()
		<-ended
		ended <- nil // for a second time
	}
	t.Cleanup(stop)
	ctx := bounded(t, patience)
	for {
		text, err := os.ReadFile(port)
		if addr, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "PORT="); ok && err == nil {
			control, err := ctor.DialControl(ctx, addr, filepath.Join(dir, "cookie"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { control.Close() })
			return control
		}
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("tor ended: %v\n%s", err, out.String())
		case <-ctx.Done():
			t.Fatal("tor has no control port")
		case <-time.After(20 * time.Millisecond): // a file, which nobody tells of
		}
	}
}

// field returns the value of a reply's line.
func field(lines []string, name string) string {
	for _, l := range lines {
		if v, ok := strings.CutPrefix(l, name+"="); ok {
			return v
		}
	}
	return ""
}

// TestOnionKeysOfCTor: C tor reads the keys of package chive in all their forms, and writes the same.
func TestOnionKeysOfCTor(t *testing.T) {
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	client, err := chive.NewOnionClientKey(key.Address())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	onion, auth := filepath.Join(dir, "onion"), filepath.Join(dir, "auth")
	secret, err := key.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{
		filepath.Join(onion, "hs_ed25519_secret_key"):            secret,
		filepath.Join(onion, "authorized_clients", "alice.auth"): []byte(client.Client().String() + "\n"),
		filepath.Join(auth, "shop.auth_private"):                 []byte(client.Text() + "\n"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	tor := idleTor(t, dir, "--HiddenServiceDir", onion, "--HiddenServicePort", "80", "--ClientOnionAuthDir", auth)
	ctx := bounded(t, patience)
	host, err := os.ReadFile(filepath.Join(onion, "hostname"))
	if err != nil || strings.TrimSpace(string(host)) != key.Address() {
		t.Errorf("tor names the service %q, not %q: %v", host, key.Address(), err)
	}
	known, err := tor.Command(ctx, "ONION_CLIENT_AUTH_VIEW")
	if err != nil || !slices.ContainsFunc(known, func(l string) bool { return strings.Contains(l, strings.TrimSuffix(key.Address(), ".onion")) }) {
		t.Errorf("tor's keys as a client: %q, %v", known, err)
	}
	other, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	_, public, _ := strings.Cut(strings.TrimPrefix(client.Client().String(), "descriptor:"), ":")
	reply, err := tor.Command(ctx, "ADD_ONION "+other.Text()+" Flags=V3Auth Port=80 ClientAuthV3="+public)
	if err != nil || field(reply, "ServiceID")+".onion" != other.Address() || field(reply, "ClientAuthV3") != public {
		t.Errorf("ADD_ONION with a key: %q, %v", reply, err)
	}
	if reply, err = tor.Command(ctx, "ADD_ONION NEW:ED25519-V3 Port=80"); err != nil {
		t.Fatal(err)
	}
	again, err := chive.ParseOnionKey(field(reply, "PrivateKey"))
	if err != nil || again.Address() != field(reply, "ServiceID")+".onion" || again.Text() != field(reply, "PrivateKey") {
		t.Errorf("a key of tor's: %v", err)
	}
}
