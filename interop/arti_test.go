package interop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/relay"
)

// artiClient is the Tor Project's client in Rust, version 2.7.
type artiClient struct{ path string }

func (artiClient) name() string { return "arti" }

func (artiClient) quirks() quirks {
	return quirks{noHalfClose: true, noPins: true, noNameErrors: true, vagueRefusals: true, keepsBadCache: true, manyGuards: true}
}

// findArti returns the path of arti: CHIVE_ARTI, or arti in PATH.
func findArti() (string, error) {
	if p := os.Getenv("CHIVE_ARTI"); p != "" {
		return exec.LookPath(p)
	}
	return exec.LookPath("arti")
}

// TestArti runs the suite with Arti.
func TestArti(t *testing.T) { suite(t, artiClient{needArti(t)}) }

// needArti skips the test, with a message, if there is no Arti. No distribution
// has a package of it: a missing arti is a failure only if CHIVE_ARTI is set and
// CHIVE_INTEROP=1.
func needArti(t *testing.T) string {
	t.Helper()
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
	return path
}

func (a artiClient) start(ctx context.Context, nw *ctor.Network, o startOptions) (*proxy, error) {
	if len(o.pin) > 0 {
		return nil, errors.New("arti cannot be told its relays")
	}
	port, err := nw.FreePort()
	if err != nil {
		return nil, err
	}
	return startArti(ctx, a.path, nw.Description(), o.dir, port)
}

// startArti starts Arti on a private network of loopback, with further lines
// of its configuration.
func startArti(ctx context.Context, path string, nw netdir.Network, dir string, port uint16, extra ...string) (*proxy, error) {
	conf := filepath.Join(dir, "arti.toml")
	text := artiConfig(nw, dir, port) + strings.Join(extra, "\n") + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", `exec "$0" "$@" 2>&1`, path, "proxy", "-c", conf) // its log goes to standard error
	// Otherwise Arti would read the settings of the user.
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	var said strings.Builder
	pr, _, err := child.Run(ctx, nil, cmd, func(line string) bool {
		said.WriteString(line + "\n")
		return strings.Contains(line, "proxy now functional") || strings.Contains(line, "SOCKS now functional")
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	return &proxy{fmt.Sprintf("127.0.0.1:%d", port), pr.PID(), pr.Stop}, nil
}

// artiConfig is what Arti needs for a private network on loopback. With the times for
// circuits that it would learn there, it drops those of a loaded machine.
func artiConfig(nw netdir.Network, dir string, port uint16) string {
	var caches, idents []string
	cache := func(rsa ident.RSAID, ed ident.Ed25519ID, at netip.AddrPort) {
		caches = append(caches, fmt.Sprintf(`{rsa_identity = %q, ed_identity = %q, orports = [%q]}`, strings.ToLower(rsa.String()), ed, at))
	}
	for _, a := range nw.Authorities {
		cache(a.RSA, a.Ed, a.ORPorts[0])
		idents = append(idents, fmt.Sprintf("%q", a.V3Ident))
	}
	for _, f := range nw.Fallbacks {
		cache(f.RSA, f.Ed, f.ORPorts[0])
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
[override_net_params]
cbtdisabled = 1
[tor_network]
fallback_caches = [%s]
[tor_network.authorities]
v3idents = [%s]
`, port, filepath.Join(dir, "cache"), filepath.Join(dir, "state"), strings.Join(caches, ", "), strings.Join(idents, ", "))
}

// artiUses makes Arti send bytes through a Chive relay and a Chive exit in a
// network of C tor: through mid as guard and as middle, and through the exit.
// Arti has no option to choose relays, but accepts any relay as its bridge, which
// is then its guard. For the other positions, the test repeats downloads until
// the relay has carried one.
func artiUses(t *testing.T, path string, nw *ctor.Network, mid, out *relay.Relay) {
	const size, tries = 10 << 20, 60
	use := func(t *testing.T, guard netip.AddrPort, fp ident.RSAID, done func() bool) {
		t.Helper()
		line := fmt.Sprintf("[bridges]\nenabled = true\nbridges = [\"%s %s\"]", guard, fp)
		p, err := startArti(bounded(t, time.Minute), path, nw.Description(), t.TempDir(), freePort(t), line)
		if err != nil {
			t.Fatal(err)
		}
		defer p.stop()
		for i := range tries {
			if err := download(bounded(t, time.Minute), p.isolated(fmt.Sprint(i)), shared.target.Addr(target.Source), size); err != nil {
				t.Fatal(err)
			}
			if done() {
				t.Logf("after %d downloads", i+1)
				return
			}
		}
		t.Errorf("not in %d downloads", tries)
	}
	// carried reports whether a relay has carried a whole download since the last
	// call.
	carried := func(r *relay.Relay) func() bool {
		last := r.Stats().Channel.BytesOut.Load()
		return func() bool {
			now := r.Stats().Channel.BytesOut.Load()
			defer func() { last = now }()
			return now-last >= size
		}
	}
	t.Run("guard", func(t *testing.T) { use(t, mid.Addrs()[0], mid.Target().RSA, carried(mid)) })
	other := nw.Node("relay0")
	t.Run("middle", func(t *testing.T) { use(t, other.OR, other.ID.RSA, carried(mid)) })
	t.Run("exit", func(t *testing.T) { use(t, other.OR, other.ID.RSA, carried(out)) })
}
