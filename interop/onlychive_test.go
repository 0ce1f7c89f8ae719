package interop

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// onlyChive starts a network whose authorities, relays and exits are all
// Chive's, with some of C tor's clients.
func onlyChive(t *testing.T, torClients int) *lab.Network {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	nw, err := lab.Start(bounded(t, patience), lab.Options{CtorClients: torClients, Log: log,
		Relay: func(_ string, cfg *relay.Config) {
			if len(cfg.ExitPolicy) > 0 {
				cfg.ExitPolicy = kinds["kist"].ExitPolicy
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range nw.Stages {
		t.Logf("%s: %v", s.Name, s.Took.Round(time.Millisecond))
	}
	return nw
}

// everything checks what another project's client must be able to do through such
// a network.
func everything(t *testing.T, s subject, p *proxy) {
	traffics(t, s, p, bulk)
	t.Run("resolve", func(t *testing.T) { testResolve(t, s, p) })
	t.Run("ipv6", func(t *testing.T) { testIPv6(t, p) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, s, p) })
}

// TestTorThroughOnlyChive runs C tor's client in a network of Chive's nodes only.
func TestTorThroughOnlyChive(t *testing.T) {
	t.Parallel()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw := onlyChive(t, 1)
	n := nw.Node("client0")
	everything(t, torClient{}, &proxy{n.SOCKS, n.PID(), func() error { return nil }})
	log, err := os.ReadFile(filepath.Join(nw.Dir, "tor", n.Name, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ctor.Warnings(string(log), 0) {
		if !strings.Contains(w, "is giving Tor only an IP address") { // as these tests mean to
			t.Error(w)
		}
	}
}

// TestArtiThroughOnlyChive does the same with Arti, if it is installed.
func TestArtiThroughOnlyChive(t *testing.T) {
	t.Parallel()
	path := needArti(t)
	nw := onlyChive(t, 0)
	p, err := startArti(bounded(t, patience), path, describe(t, nw), t.TempDir(), freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	everything(t, artiClient{path}, p)
}

// describe reads a network's own file.
func describe(t *testing.T, nw *lab.Network) netdir.Network {
	t.Helper()
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := netfile.Parse(nw.NetworkFile, text)
	if err != nil {
		t.Fatal(err)
	}
	return *d
}
