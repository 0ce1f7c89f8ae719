package onion_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	libp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/libp2p/onion"
)

// patience bounds a test: it says how long a broken one takes, and no more.
const patience = 3 * time.Minute

// startLab starts a Tor network that the test ends.
func startLab(t testing.TB, o lab.Options) *lab.Network {
	t.Helper()
	o.Dir = t.TempDir()
	nw, err := lab.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	return nw
}

// listening returns what a host needs to have a new onion.
func listening(t testing.TB) (onion.Config, libp2p.Option) {
	t.Helper()
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := onion.ListenAddr(key, 4001)
	if err != nil {
		t.Fatal(err)
	}
	return onion.Config{Onion: chive.OnionConfig{Key: key}}, libp2p.ListenAddrs(addr)
}

// newHost makes a host with an onion that peers can find.
func newHost(t testing.TB, ctx context.Context, c *chive.Client, opts ...libp2p.Option) host.Host {
	t.Helper()
	cfg, at := listening(t)
	h, err := onion.NewHost(c, cfg, append(opts, at)...)
	if err != nil {
		t.Fatal(err)
	}
	return published(t, ctx, h)
}

// published waits until peers can find a host, which the test closes.
func published(t testing.TB, ctx context.Context, h host.Host) host.Host {
	t.Helper()
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := onion.WaitPublished(ctx, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// info returns what a peer must know of a host.
func info(h host.Host) peer.AddrInfo { return peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()} }

const echoProtocol = "/chive/echo/1"

// echo sends bytes over a stream to a peer, which sends them back.
func echo(t testing.TB, ctx context.Context, h host.Host, p peer.ID, n int) {
	t.Helper()
	s, err := h.NewStream(ctx, p, echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sent := make([]byte, n)
	rand.Read(sent)
	wrote := make(chan error, 1)
	go func() {
		_, err := s.Write(sent)
		if err == nil {
			err = s.CloseWrite()
		}
		wrote <- err
	}()
	got, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes came back of %d, or others", len(got), len(sent))
	}
}

// answer has a host send back what comes.
func answer(h host.Host) {
	h.SetStreamHandler(echoProtocol, func(s network.Stream) {
		defer s.Close()
		if _, err := io.Copy(s, s); err != nil {
			_ = s.Reset()
		}
	})
}

// TestNetwork runs hosts over one Tor network.
func TestNetwork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw := startLab(t, lab.Options{})
	a, b, c := newHost(t, ctx, nw.Client), newHost(t, ctx, nw.Client), newHost(t, ctx, nw.Client)
	for _, h := range []host.Host{a, b, c} {
		answer(h)
	}
	t.Run("echo", func(t *testing.T) { twoEcho(t, ctx, a, b) })
	t.Run("gossip", func(t *testing.T) { gossip(t, ctx, a, b, c) })
	t.Run("elsewhere", func(t *testing.T) { elsewhere(t, ctx, nw.Client, a) })
	t.Run("wrong", func(t *testing.T) { wrong(t, ctx, a) })
	t.Run("streams", func(t *testing.T) { streams(t, ctx, nw.Client, a, c) })
	t.Run("end", func(t *testing.T) { end(t, ctx, nw.Client, a) })
}

// twoEcho has two hosts find each other by their onions, and a mebibyte come back. They
// know nothing else of each other after that.
func twoEcho(t *testing.T, ctx context.Context, a, b host.Host) {
	if err := a.Connect(ctx, info(b)); err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, a, b.ID(), 1<<20)
	echo(t, ctx, b, a.ID(), 1<<10) // over the same connection
	for _, h := range []struct{ h, of host.Host }{{a, b}, {b, a}} {
		// Identify has told them: NewStream waits for it.
		if got := h.h.Peerstore().Addrs(h.of.ID()); len(got) != 1 || !got[0].Equal(h.of.Addrs()[0]) {
			t.Errorf("a host knows the addresses %v of one at %v", got, h.of.Addrs())
		}
		agent, err := h.h.Peerstore().Get(h.of.ID(), "AgentVersion")
		if err != nil || agent != onion.DefaultUserAgent {
			t.Errorf("the agent is %v, %v", agent, err)
		}
	}
}

// wrong dials onions that are not there.
func wrong(t *testing.T, ctx context.Context, h host.Host) {
	own := h.Addrs()[0].String()
	other := byte('a')
	if own[len("/onion3/")] == other {
		other = 'b'
	}
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := onion.ListenAddr(key, 4001)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		addr string
		err  error
	}{
		{own[:len("/onion3/")] + string(other) + own[len("/onion3/")+1:], chive.ErrOnionAddress}, // its checksum is wrong
		{nobody.String(), chive.ErrOnionNoDescriptor},
	} {
		if err := h.Connect(ctx, peer.AddrInfo{ID: stranger(t), Addrs: []ma.Multiaddr{ma.StringCast(w.addr)}}); !errors.Is(err, w.err) {
			t.Errorf("%v instead of: %v", err, w.err)
		}
	}
}

// stranger returns the ID of a peer that is nowhere.
func stranger(t *testing.T) peer.ID {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// streams has one peer open more streams than the resource manager allows it, which keeps
// no other peer from opening one.
func streams(t *testing.T, ctx context.Context, c *chive.Client, greedy, honest host.Host) {
	limits := rcmgr.PartialLimitConfig{PeerDefault: rcmgr.ResourceLimits{StreamsInbound: 8}}
	m, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits.Build(rcmgr.InfiniteLimits)), rcmgr.WithMetricsDisabled())
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, ctx, c, libp2p.ResourceManager(m))
	answer(h)
	if err := greedy.Connect(ctx, info(h)); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 50 {
		s, err := greedy.NewStream(ctx, h.ID(), echoProtocol)
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		if err == nil {
			_, err = s.Read(make([]byte, 1))
		}
		if err != nil {
			refused++
		}
	}
	if refused < 50-8 {
		t.Errorf("%d of 50 streams were refused", refused)
	}
	if err := honest.Connect(ctx, info(h)); err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, honest, h.ID(), 1<<10)
}

// end closes a host while a peer is connected: the peer loses the connection, and nothing
// of the host stays.
func end(t *testing.T, ctx context.Context, c *chive.Client, to host.Host) {
	before := hosts(t)
	h := newHost(t, ctx, c)
	if err := h.Connect(ctx, info(to)); err != nil {
		t.Fatal(err)
	}
	if hosts(t) <= before {
		t.Fatal("a host has no goroutine: this test looks for the wrong ones")
	}
	gone := make(chan struct{})
	var once sync.Once
	to.Network().Notify(&network.NotifyBundle{DisconnectedF: func(_ network.Network, is network.Conn) {
		if is.RemotePeer() == h.ID() {
			once.Do(func() { close(gone) })
		}
	}})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-ctx.Done():
		t.Fatal("the peer still has its connection")
	}
	for hosts(t) > before {
		if ctx.Err() != nil {
			t.Fatalf("%d goroutines of hosts, and %d before", hosts(t), before)
		}
		runtime.Gosched()
	}
}

// hosts returns how many goroutines of libp2p's hosts run.
func hosts(t *testing.T) int {
	t.Helper()
	all := make([]byte, 16<<20)
	all = all[:runtime.Stack(all, true)]
	n := 0
	for _, g := range strings.Split(string(all), "\n\n") {
		if strings.Contains(g, "/go-libp2p@") || strings.Contains(g, "/libp2p/onion.(") {
			n++
		}
	}
	return n
}

// TestThroughTor is twoEcho where most relays are stock C tor's.
func TestThroughTor(t *testing.T) {
	if testing.Short() {
		t.Skip("another program, and some seconds")
	}
	if _, err := exec.LookPath("tor"); err != nil {
		if os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: no tor in PATH")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw := startLab(t, lab.Options{Relays: 1, Exits: 1, CtorRelays: 3})
	a, b := newHost(t, ctx, nw.Client), newHost(t, ctx, nw.Client)
	answer(a)
	answer(b)
	twoEcho(t, ctx, a, b)
}
