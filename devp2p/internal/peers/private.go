package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// Dial makes a short connection to a node's onion, which nothing links with this node's
// others: it has a circuit and a node key of its own. It ends when one of the protocols
// returns; Dial returns its error. Without an onion, the error is devp2p.ErrNoOnion.
func (m *Manager) Dial(ctx context.Context, n *enode.Node, protocols ...p2p.Protocol) error {
	key, err := crypto.GenerateKey()
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	var mu sync.Mutex
	var result error
	ended := false
	protocols = slices.Clone(protocols)
	for i := range protocols {
		run := protocols[i].Run
		protocols[i].Run = func(p *p2p.Peer, rw p2p.MsgReadWriter) error {
			err := run(p, rw)
			mu.Lock()
			if !ended {
				ended, result = true, err
			}
			mu.Unlock()
			return err
		}
	}
	srv := &p2p.Server{Config: p2p.Config{
		PrivateKey: key, Name: m.cfg.Name, Protocols: protocols, MaxPeers: 1, NoDial: true, NoDiscovery: true,
		Logger: log.NewLogger(slog.DiscardHandler),
	}}
	if err := srv.Start(); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	defer srv.Stop()
	events := make(chan *p2p.PeerEvent, 2)
	sub := srv.SubscribeEvents(events)
	defer sub.Unsubscribe()
	raw, err := m.cfg.Transport.DialPrivate(ctx, n)
	if err != nil {
		return err
	}
	c := &conn{Conn: raw, addr: "private", route: devp2p.Route{Onion: true, Why: "private"}, stretch: max(m.cfg.HandshakeTimeout-rlpxTimeout, 0)}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := srv.SetupConn(c, flagDialed, n); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("peers: private connection: %w", err)
	}
	for e := range events {
		if e.Type != p2p.PeerEventTypeDrop {
			continue
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ended && !errors.Is(result, net.ErrClosed):
			return result
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		return fmt.Errorf("peers: private connection: %s", e.Error)
	}
	return nil
}
