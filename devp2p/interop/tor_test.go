package interop

import (
	"log/slog"
	"testing"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/program/programtest"
)

// withStockTor starts a lab network with a tor daemon as one of its clients.
func withStockTor(t *testing.T) (*lab.Network, *lab.Node) {
	t.Helper()
	_, err := lab.FindTor("")
	programtest.Need(t, "C tor", err)
	nw := startLab(t, lab.Options{CtorClients: 1})
	return nw, nw.Node("client0")
}

// TestTwoGethsTor is TestTwoGeths with a stock tor as the proxy of one side, by its SOCKS
// and its control port.
func TestTwoGethsTor(t *testing.T) {
	nw, daemon := withStockTor(t)
	a, b := startGeth(t), startGeth(t)
	stock, err := devp2p.TorProxy(devp2p.TorProxyConfig{SOCKS: daemon.SOCKS, Control: daemon.Control,
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
