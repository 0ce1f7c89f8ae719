package find

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p/discover"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// Discv5 finds nodes by UDP, outside Tor: strangers learn this machine's address. It is for
// policies that allow this.
type Discv5 struct {
	Policy    devp2p.Policy
	Key       *ecdsa.PrivateKey
	Listen    string // "0.0.0.0:30303"
	Bootnodes []*enode.Node
	OnionOnly bool // leave out nodes without an onion
}

// Run looks for nodes until ctx ends, and gives them to sink. self, if not nil, is called
// with this node as discv5 tells it to others; the caller adds its entries to it.
func (d Discv5) Run(ctx context.Context, self func(*enode.LocalNode), sink Sink) error {
	if !d.Policy.AllowsClearnet() {
		return fmt.Errorf("find: policy %s sends no UDP: discv5 is not for it", d.Policy)
	}
	if d.Key == nil {
		return errors.New("find: discv5 needs a key")
	}
	listen, err := netip.ParseAddrPort(d.Listen)
	if err != nil {
		return fmt.Errorf("find: discv5 listens at an IP address and a port: %w", err)
	}
	db, err := enode.OpenDB("")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(listen))
	if err != nil {
		return err
	}
	ln := enode.NewLocalNode(db, d.Key)
	ln.SetFallbackUDP(conn.LocalAddr().(*net.UDPAddr).Port)
	if self != nil {
		self(ln)
	}
	v5, err := discover.ListenV5(conn, ln, discover.Config{PrivateKey: d.Key, Bootnodes: d.Bootnodes, Log: log.NewLogger(slog.DiscardHandler)})
	if err != nil {
		conn.Close()
		return err
	}
	defer v5.Close()
	drain(ctx, v5.RandomNodes(), d.OnionOnly, "discv5", sink)
	return nil
}
