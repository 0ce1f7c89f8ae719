package onion_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	libp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/libp2p/onion"
)

// elsewhere has a host learn of addresses that are no onions: from its program, and from a
// peer. None is dialled, and no name server is asked.
func elsewhere(t *testing.T, ctx context.Context, c *chive.Client, h host.Host) {
	asked := watchResolver(t)
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	port := tcp.Addr().(*net.TCPAddr).Port
	var bad []ma.Multiaddr
	for _, text := range []string{
		fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port),
		fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/ws", port),
		fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1", udp.LocalAddr().(*net.UDPAddr).Port),
		fmt.Sprintf("/dns4/localhost/tcp/%d", port),
		fmt.Sprintf("/dns4/chive.example/tcp/%d", port),
		"/dnsaddr/chive.example",
		fmt.Sprintf("/ip4/127.0.0.1/tcp/%d%s", port, h.Addrs()[0]),
	} {
		bad = append(bad, ma.StringCast(text))
	}
	for _, addr := range bad {
		err := h.Connect(ctx, peer.AddrInfo{ID: stranger(t), Addrs: []ma.Multiaddr{addr}})
		if !errors.Is(err, swarm.ErrNoTransport) && !errors.Is(err, swarm.ErrGaterDisallowedConnection) {
			t.Errorf("%s: %v", addr, err)
		}
	}

	// A peer that tells these, and its onion too.
	cfg, at := listening(t)
	liar, err := libp2p.New(at, libp2p.Transport(onion.New(c, cfg)), libp2p.DisableRelay(),
		libp2p.AddrsFactory(func(own []ma.Multiaddr) []ma.Multiaddr { return append(own, bad...) }))
	if err != nil {
		t.Fatal(err)
	}
	published(t, ctx, liar)
	answer(liar)
	if err := h.Connect(ctx, peer.AddrInfo{ID: liar.ID(), Addrs: liar.Network().ListenAddresses()}); err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, h, liar.ID(), 1)
	if got := h.Peerstore().Addrs(liar.ID()); len(got) < 2 {
		t.Fatalf("the peer told %v only: this test shows nothing", got)
	}
	for _, is := range liar.Network().ConnsToPeer(h.ID()) {
		if a := is.RemoteMultiaddr(); len(a) != 1 || a[0].Code() != ma.P_ONION3 {
			t.Errorf("the peer sees %s", a)
		}
	}
	// Without a connection, and with fresh addresses, the host dials again.
	if err := h.Network().ClosePeer(liar.ID()); err != nil {
		t.Fatal(err)
	}
	h.Peerstore().AddAddrs(liar.ID(), bad, peerstore.PermanentAddrTTL)
	echo(t, ctx, h, liar.ID(), 1)
	for _, is := range h.Network().ConnsToPeer(liar.ID()) {
		if is.Stat().Direction != network.DirOutbound || !is.RemoteMultiaddr().Equal(liar.Network().ListenAddresses()[0]) {
			t.Errorf("the connection is to %s", is.RemoteMultiaddr())
		}
	}

	if n := asked.Load(); n != 0 {
		t.Errorf("a name server was asked %d times", n)
	}
	past := time.Unix(1, 0) // who has connected is there, nobody must wait
	if err := errors.Join(tcp.SetDeadline(past), udp.SetDeadline(past)); err != nil {
		t.Fatal(err)
	}
	if c, err := tcp.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("somebody connected: %v, %v", c, err)
	}
	if n, from, err := udp.ReadFrom(make([]byte, 2000)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came from %v: %v", n, from, err)
	}
}

// watchResolver counts how often this process asks a name server while the test runs, and
// answers nothing.
func watchResolver(t *testing.T) *atomic.Int64 {
	t.Helper()
	n := new(atomic.Int64)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		n.Add(1)
		return nil, errors.New("the test has no name server")
	}}
	t.Cleanup(func() { net.DefaultResolver = before })
	// It counts.
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "chive.example"); err == nil || n.Swap(0) == 0 {
		t.Fatalf("the resolver does not count: %v", err)
	}
	return n
}
