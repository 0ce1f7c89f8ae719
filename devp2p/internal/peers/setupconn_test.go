package peers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"

	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// TestFlags: the numbers of go-ethereum's flags, which it does not export, are what this
// package takes them for.
func TestFlags(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var servers []*p2p.Server
	p := newTalk()
	for range 2 {
		srv := &p2p.Server{Config: p2p.Config{PrivateKey: nodetest.Key(t), MaxPeers: 2, NoDial: true, NoDiscovery: true,
			Protocols: []p2p.Protocol{p.protocol()}, Logger: log.NewLogger(slog.DiscardHandler)}}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		defer srv.Stop()
		servers = append(servers, srv)
	}
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- servers[0].SetupConn(a, flagDialed, servers[1].Self()) }()
	if err := errors.Join(servers[1].SetupConn(b, flagInbound, nil), <-done); err != nil {
		t.Fatal(err)
	}
	p.wait(t, ctx, 2)
	out, in := servers[0].Peers()[0], servers[1].Peers()[0]
	if !out.StaticDialed() || out.Inbound() || out.Trusted() || out.DynDialed() {
		t.Errorf("flag %d: %+v", flagDialed, out.Info().Network)
	}
	if !in.Inbound() || in.StaticDialed() || in.Trusted() || in.DynDialed() {
		t.Errorf("flag %d: %+v", flagInbound, in.Info().Network)
	}
}
