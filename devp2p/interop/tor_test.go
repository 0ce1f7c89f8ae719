package interop

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/program/programtest"
)

// stockTor runs a tor daemon as a client of a lab network.
func stockTor(t *testing.T, nw *lab.Network) *ctor.Node {
	t.Helper()
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := netfile.Parse(nw.NetworkFile, text)
	if err != nil {
		t.Fatal(err)
	}
	opts := ctor.Options{DirAuthorities: []string{}, Relays: -1, Exits: -1, Clients: 1, Dir: filepath.Join(t.TempDir(), "tor"),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, a := range d.Authorities {
		opts.DirAuthorities = append(opts.DirAuthorities, fmt.Sprintf("%s orport=%d no-v2 v3ident=%s %s %s",
			a.Nickname, a.ORPorts[0].Port(), a.V3Ident, a.DirPort, a.RSA))
	}
	if err := os.Mkdir(opts.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tor, err := ctor.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tor.Close(); err != nil {
			t.Error(err)
		}
	})
	return tor.Node("client0")
}

// TestTwoGethsTor is TestTwoGeths with a stock tor as the proxy of one side, by its SOCKS
// and its control port.
func TestTwoGethsTor(t *testing.T) {
	_, _, err := ctor.Find("")
	programtest.Need(t, "C tor", err)
	nw := startLab(t, lab.Options{})
	a, b := startGeth(t), startGeth(t)
	daemon := stockTor(t, nw)
	stock, err := devp2p.TorProxy(devp2p.TorProxyConfig{SOCKS: daemon.SOCKS.String(), Control: daemon.ControlAddr.String(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stock.Close(); err != nil {
			t.Error(err)
		}
	})
	meet(t, a, b, third(t, devp2p.Embedded(nw.Client)), stock, devp2p.Embedded(client(t, nw)))
}
