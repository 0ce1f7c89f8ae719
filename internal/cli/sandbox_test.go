package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// TestRelaySandbox makes a confined relay read a file that it may read, and one
// that it may not.
func TestRelaySandbox(t *testing.T) {
	inside, outside, dir := t.TempDir(), t.TempDir(), t.TempDir()
	const family = "A000000000000000000000000000000000000001\n"
	write := func(path, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	network := write(filepath.Join(inside, "net.toml"), "name = 'lab'\n[[authority]]\nnickname = 'a'\nv3ident = 'F533C81CEF0BC0267857C99B2F471ADF249FA232'\n"+
		"rsa = '2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C'\norport = ['127.0.0.1:9']\n[testing]\nallow_private_addresses = true\n")
	config := filepath.Join(inside, "relay.toml")
	may, mayNot := write(filepath.Join(inside, "family"), family), write(filepath.Join(outside, "family"), family)
	for _, mode := range []string{"off", "require"} {
		t.Run(mode, func(t *testing.T) {
			if v, err := landlock.LandlockGetABIVersion(); mode == "require" && (err != nil || v < 3) {
				t.Skip("SKIPPED, NOTHING WAS TESTED: this kernel has no Landlock, or an old one")
			}
			write(config, "")
			p := runDaemon(t, "relay", dir, "--sandbox", mode, "--network", network, "--config", config, "--orport", "127.0.0.1:0", "--assume-reachable")
			write(config, fmt.Sprintf("family-file = %q\n", mayNot))
			p.signal(syscall.SIGHUP)
			if mode == "off" {
				await(t, "the reload", func() bool { return p.said("[family-file]") })
			} else {
				await(t, "the refusal", func() bool { return p.said("relay.toml:1: family-file: open " + mayNot + ": permission denied") })
			}
			write(config, fmt.Sprintf("contact = 'me'\nfamily-file = %q\n", may))
			p.signal(syscall.SIGHUP)
			await(t, "the reload", func() bool { return p.said("[contact family-file]") })
			p.signal(syscall.SIGTERM)
			if err := p.Wait(); err != nil { // it has written what it keeps
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "bandwidth.json")); err != nil {
				t.Error(err)
			}
		})
	}
}
