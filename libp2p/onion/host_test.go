package onion_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"testing"
	"time"

	libp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/libp2p/onion"
)

// patience bounds a test: it says how long a broken one takes, and no more.
const patience = 3 * time.Minute

// startLab starts a Tor network that the test ends.
func startLab(t testing.TB) *lab.Network {
	t.Helper()
	nw, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir()})
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

// newHost makes a host with an onion that peers can find.
func newHost(t testing.TB, ctx context.Context, c *chive.Client, opts ...libp2p.Option) host.Host {
	t.Helper()
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := onion.ListenAddr(key, 4001)
	if err != nil {
		t.Fatal(err)
	}
	h, err := onion.NewHost(c, onion.Config{Onion: chive.OnionConfig{Key: key}}, append(opts, libp2p.ListenAddrs(addr))...)
	if err != nil {
		t.Fatal(err)
	}
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

// TestEcho: two hosts find each other by their onions, and a mebibyte comes back.
func TestEcho(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw := startLab(t)
	a, b := newHost(t, ctx, nw.Client), newHost(t, ctx, nw.Client)
	answer(b)
	if err := a.Connect(ctx, peer.AddrInfo{ID: b.ID(), Addrs: b.Addrs()}); err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, a, b.ID(), 1<<20)
}
