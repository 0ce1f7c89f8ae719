package interop

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/lab"
)

// TestOnionArti has Arti reach a service of Chive's, and Chive reach services of Arti's,
// through relays of C tor and through relays of Chive's.
func TestOnionArti(t *testing.T) {
	path := needArti(t)
	t.Run("through C tor", func(t *testing.T) {
		t.Parallel()
		nw := ctortest.Network(t, ctor.Options{Relays: 6, Exits: 2})
		defer quiet(t, nw)()
		onionArti(t, path, nw.Description())
	})
	t.Run("through Chive", func(t *testing.T) {
		t.Parallel()
		nw, err := lab.Start(bounded(t, patience), lab.Options{VotingInterval: 5 * time.Minute, Relays: 6, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			t.Fatal(err)
		}
		defer nw.Close()
		onionArti(t, path, describe(t, nw))
	})
}

// The nicknames of Arti's services.
const (
	artiOpen   = "open"
	artiClosed = "closed" // for one client
)

func onionArti(t *testing.T, path string, d netdir.Network) {
	connects, size := 10, int64(10<<20)
	if os.Getenv("CHIVE_LONG") != "" {
		connects, size = 100, 100<<20
	}
	c := inNetwork(t, &d, "client", nil)
	l := serve(t, inNetwork(t, &d, "service", nil), chive.OnionConfig{Targets: map[int]string{
		onionEcho: shared.target.Addr(target.Echo), onionSource: shared.target.Addr(target.Source)}})

	// The name of a client's key is not in the key, so any address does here.
	public, private, err := hsservice.NewClient(l.Address())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ports := fmt.Sprintf("proxy_ports = [[\"%d\", %q], [\"%d\", %q], [\"81\", %q]]", onionEcho, shared.target.Addr(target.Echo),
		onionSource, shared.target.Addr(target.Source), shared.target.Addr(target.Web))
	p, err := startArti(bounded(t, 2*patience), path, d, dir, freePort(t),
		"[onion_services."+artiOpen+"]", ports, "[onion_services."+artiClosed+"]", ports,
		"[onion_services."+artiClosed+".restricted_discovery]", "enabled = true",
		"[onion_services."+artiClosed+".restricted_discovery.static_keys]", fmt.Sprintf("alice = %q", strings.TrimSpace(public)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	host := artiAddress(t, path, dir, artiOpen)

	moves := func(t *testing.T, dial func(n int) contextDialer, host string) {
		artiAwaits(t, dial(-1), host)
		var longest, sum time.Duration
		for i := range connects {
			began := time.Now()
			if err := echo(bounded(t, patience), dial(i), fmt.Sprintf("%s:%d", host, onionEcho), fmt.Sprint("number ", i)); err != nil {
				t.Errorf("connect %d of %d: %v", i, connects, err)
			}
			took := time.Since(began)
			longest, sum = max(longest, took), sum+took
		}
		t.Logf("%d connects, %v each, %v the longest", connects, (sum / time.Duration(connects)).Round(time.Millisecond), longest.Round(time.Millisecond))
		began := time.Now()
		if err := download(bounded(t, patience), dial(connects), fmt.Sprintf("%s:%d", host, onionSource), size); err != nil {
			t.Error(err)
		}
		t.Logf("%d bytes in %v", size, time.Since(began).Round(time.Millisecond))
		onionStreams(t, dial(connects), host)
	}
	t.Run("client", func(t *testing.T) {
		moves(t, func(n int) contextDialer { return p.isolated(fmt.Sprint(n)) }, l.Address())
	})
	t.Run("service", func(t *testing.T) {
		one := c.Isolated()
		moves(t, func(n int) contextDialer {
			if n == connects {
				return one
			}
			return c.Isolated()
		}, host)
		artiPage(t, c, host)
	})
	t.Run("authorization", func(t *testing.T) {
		closed := artiAddress(t, path, dir, artiClosed)
		_, secret, _ := strings.Cut(strings.TrimSpace(private), ":descriptor:")
		mine := strings.TrimSuffix(closed, ".onion") + ":descriptor:" + secret
		_, strange, err := hsservice.NewClient(closed)
		if err != nil {
			t.Fatal(err)
		}
		with := func(name, line string) *chive.Client {
			return inNetwork(t, &d, name, func(cfg *chive.Config) { cfg.ClientOnionAuth = []string{strings.TrimSpace(line)} })
		}
		artiAwaits(t, with("authorized", mine), closed)
		to := fmt.Sprintf("%s:%d", closed, onionEcho)
		if err := echo(bounded(t, patience), with("stranger", strange), to, "hello"); !errors.Is(err, chive.ErrOnionBadAuth) {
			t.Errorf("a wrong key: %v", err)
		}
		if err := echo(bounded(t, patience), c, to, "hello"); !errors.Is(err, chive.ErrOnionNeedsAuth) {
			t.Errorf("no key: %v", err)
		}
	})
}

// artiAwaits waits until a service is published.
func artiAwaits(t *testing.T, d contextDialer, host string) {
	t.Helper()
	var last error
	defer func() {
		if last != nil {
			t.Logf("%s: %v", host, last)
		}
	}()
	await(t, "the first connection", patience, func() bool {
		last = echo(bounded(t, patience), d, fmt.Sprintf("%s:%d", host, onionEcho), "hello")
		return last == nil
	})
}

// artiPage fetches a page that ends with its connection through a SOCKS port, slowly:
// no byte may be lost at the end.
func artiPage(t *testing.T, c *chive.Client, host string) {
	t.Helper()
	const size = 1 << 20
	ln, err := socks.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := socks.NewSOCKS(socks.Config{Dialer: proxydial.Dialer{Client: proxydial.Of(c)}})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	defer func() {
		if err := errors.Join(server.Close(), <-ended); err != nil {
			t.Error(err)
		}
	}()
	d := socksclient.Dialer{Proxy: ln.Addr().String()}
	if err := fetchOver(bounded(t, patience), d.DialContext, host+":81", size); err != nil {
		t.Error("by SOCKS: ", err)
	}
}

// artiAddress asks Arti for the address of its service.
func artiAddress(t *testing.T, path, dir, service string) string {
	t.Helper()
	cmd := exec.Command(path, "-c", filepath.Join(dir, "arti.toml"), "-l", "warn", "hss", "--nickname", service, "onion-address")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// inNetwork starts a client of Chive's.
func inNetwork(t *testing.T, d *netdir.Network, name string, change func(*chive.Config)) *chive.Client {
	t.Helper()
	text, err := netfile.Format(d)
	if err != nil {
		t.Fatal(err)
	}
	nw, err := chive.ParseNetwork(text)
	if err != nil {
		t.Fatal(err)
	}
	cfg := chive.Config{Network: nw, DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("client", name)}
	if change != nil {
		change(&cfg)
	}
	c, err := chive.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Wait(bounded(t, patience)); err != nil {
		t.Fatal(err)
	}
	return c
}
