package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/chivenet/chive/authority"
)

// TestAuthorityCommand runs an authority, asks for its status, and changes its
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
	file := filepath.Join(dir, "authority.toml")
	configure := func(more string) {
		write(file, fmt.Sprintf("network = %q\nnickname = 'auth'\norport = %q\ndirport = %q\nrelay-list = %q\nmetrics = '127.0.0.1:0'\nparam.cbtmincircs = 5\n%s", network, orport, dirport, list, more))
	}
	configure("")
	sandbox := "require"
	if v, err := landlock.LandlockGetABIVersion(); err != nil || v < 3 {
		t.Log("NOT TESTED: this kernel has no Landlock, or an old one, and the authority is not confined")
		sandbox = "auto"
	}
	p := runDaemon(t, "authority", dir, "--config", file, "--sandbox", sandbox)
	if text := scrape(t, p.lines["metrics"], "localhost"); !strings.Contains(text, "\nchive_authority_relays 0\n") || !strings.Contains(text, "\nchive_panics_total 0\n") {
		t.Errorf("metrics: %s", text)
	}
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
	write(list, "")

	// Options: a live one takes effect, another one is named in the log, and the
	// log gives the line of a mistake.
	configure("max-memory = 67108864\nipv6 = true\n")
	p.signal(syscall.SIGHUP)
	await(t, "the reload", func() bool {
		return p.said("take effect at the next start\" options=[ipv6]") && p.said("[max-memory]")
	})
	if text := scrape(t, p.lines["metrics"], "localhost"); !strings.Contains(text, fmt.Sprintf("\nchive_authority_memory_bound_bytes %d\n", 67108864/8*7)) {
		t.Errorf("metrics: %s", text)
	}
	configure("max-memory = 1\n")
	p.signal(syscall.SIGHUP)
	await(t, "the refusal", func() bool { return p.said("authority.toml:8: max-memory: 1 is below 33554432") })
	if sandbox == "require" && !p.said("confined: files elsewhere are out of reach") {
		t.Error("it is not confined")
	}
	p.signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
