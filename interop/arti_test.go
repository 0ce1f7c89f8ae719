package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/lab/ctor"
)

// artiClient is the Tor Project's client in Rust, version 2.7.
type artiClient struct{ path string }

func (artiClient) name() string { return "arti" }

func (artiClient) quirks() quirks {
	return quirks{noHalfClose: true, noPins: true, noNameErrors: true, vagueRefusals: true, keepsBadCache: true, manyGuards: true}
}

// findArti returns the path of arti: CHIVE_ARTI, or what PATH has.
func findArti() (string, error) {
	if p := os.Getenv("CHIVE_ARTI"); p != "" {
		return exec.LookPath(p)
	}
	return exec.LookPath("arti")
}

// TestArti puts Arti through what it can do. Nobody packages it: a missing arti
// is a failure only where CHIVE_ARTI names one and CHIVE_INTEROP=1.
func TestArti(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
	path, err := findArti()
	if err != nil {
		if os.Getenv("CHIVE_ARTI") != "" && os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: arti: %v", err)
	}
	suite(t, artiClient{path})
}

func (a artiClient) start(ctx context.Context, nw *ctor.Network, o startOptions) (*proxy, error) {
	if len(o.pin) > 0 {
		return nil, errors.New("arti cannot be told its relays")
	}
	port, err := nw.FreePort()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(o.dir, "arti.toml")
	if err := os.WriteFile(conf, []byte(artiConfig(nw, o.dir, port)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.dir, "arti.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(a.path, "proxy", "-c", conf)
	cmd.Stdout, cmd.Stderr = log, log
	// Arti would read settings of the user's own.
	cmd.Env = append(os.Environ(), "HOME="+o.dir, "XDG_CONFIG_HOME="+o.dir)
	pr, err := nw.Run(cmd)
	if err != nil {
		return nil, err
	}
	for {
		b, err := os.ReadFile(log.Name())
		if err != nil {
			pr.Stop()
			return nil, err
		}
		if strings.Contains(string(b), "proxy now functional") || strings.Contains(string(b), "SOCKS now functional") {
			return &proxy{fmt.Sprintf("127.0.0.1:%d", port), pr.PID(), pr.Stop}, nil
		}
		select {
		case <-pr.Done():
			return nil, fmt.Errorf("arti ended at its start: %s", b)
		case <-ctx.Done():
			pr.Stop()
			return nil, fmt.Errorf("arti is not ready (%w): %s", context.Cause(ctx), b)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// artiConfig is what Arti needs for a private network on loopback.
func artiConfig(nw *ctor.Network, dir string, port uint16) string {
	var caches, idents []string
	for _, n := range nw.Routers() {
		caches = append(caches, fmt.Sprintf(`{rsa_identity = %q, ed_identity = %q, orports = [%q]}`,
			strings.ToLower(n.ID.RSA.String()), n.ID.Ed, n.OR))
		if n.Role == ctor.Authority {
			idents = append(idents, fmt.Sprintf("%q", n.V3Ident))
		}
	}
	return fmt.Sprintf(`
[application]
allow_running_as_root = true
[proxy]
socks_listen = %d
[logging]
console = "info"
[storage]
cache_dir = %q
state_dir = %q
[storage.permissions]
dangerously_trust_everyone = true
[path_rules]
ipv4_subnet_family_prefix = 33
ipv6_subnet_family_prefix = 129
[address_filter]
allow_local_addrs = true
allow_resolving_local_addrs = true
[tor_network]
fallback_caches = [%s]
[tor_network.authorities]
v3idents = [%s]
`, port, filepath.Join(dir, "cache"), filepath.Join(dir, "state"), strings.Join(caches, ", "), strings.Join(idents, ", "))
}
