package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/authority"
)

// TestAuthorityCommand runs an authority, asks it how it is, and changes its
// list of relays.
func TestAuthorityCommand(t *testing.T) {
	dir := t.TempDir()
	keys, err := authority.MakeKeys(filepath.Join(dir, "keys"), "", 12, nil)
	if err != nil {
		t.Fatal(err)
	}
	orport, dirport := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	network, list := filepath.Join(dir, "net.toml"), filepath.Join(dir, "list")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(network, fmt.Sprintf("name = 'one'\n[[authority]]\nnickname = 'auth'\nv3ident = %q\nrsa = %q\norport = [%q]\ndirport = %q\n[testing]\nallow_private_addresses = true\n",
		keys.V3Ident, keys.RSA, orport, dirport))
	write(list, "")
	p := runDaemon(t, "authority", dir, "--network", network, "--nickname", "auth", "--orport", orport, "--dirport", dirport, "--relay-list", list)
	out, err := chiveCommand("status", "--data-dir", dir).Output()
	if err != nil {
		t.Fatal(err, string(out))
	}
	for _, want := range []string{"authority  auth " + keys.V3Ident + ", one of 1\n", "consensus  none yet\n", "relays     0 known, 0 running\n",
		"certificate good until " + keys.Expires.UTC().Format(time.DateTime)} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	write(list, "!reject A000000000000000000000000000000000000001\n")
	p.signal(syscall.SIGHUP)
	await(t, "the new list", func() bool { return p.said("msg=reloaded") })
	write(list, "!eject A000000000000000000000000000000000000001\n")
	p.signal(syscall.SIGHUP)
	await(t, "the refusal", func() bool { return p.said("the settings in use stay") })
	p.signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
