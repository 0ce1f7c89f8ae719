package peers

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// noClear is a dialer that fails the test.
func noClear(t testing.TB) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		t.Error("an address was dialled")
		return nil, errors.New("no")
	}
}

// talk is a protocol whose peers send each other a number, and count the answers.
type talk struct {
	mu    sync.Mutex
	cond  *sync.Cond
	heard map[enode.ID]int
}

func newTalk() *talk {
	p := &talk{heard: map[enode.ID]int{}}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *talk) protocol() p2p.Protocol {
	return p2p.Protocol{Name: "talk", Version: 1, Length: 1, Run: func(peer *p2p.Peer, rw p2p.MsgReadWriter) error {
		werr := make(chan error, 1)
		go func() { werr <- p2p.Send(rw, 0, []uint64{42}) }()
		for {
			msg, err := rw.ReadMsg()
			if err != nil {
				<-werr
				return err
			}
			var n []uint64
			if err := msg.Decode(&n); err != nil {
				<-werr
				return err
			}
			p.mu.Lock()
			p.heard[peer.ID()]++
			p.cond.Broadcast()
			p.mu.Unlock()
		}
	}}
}

// wait waits until n peers have been heard, or fails the test.
func (p *talk) wait(t testing.TB, ctx context.Context, n int) {
	t.Helper()
	stop := context.AfterFunc(ctx, p.cond.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.heard) < n {
		if ctx.Err() != nil {
			t.Fatalf("%d peers of %d were heard", len(p.heard), n)
		}
		p.cond.Wait()
	}
}

// node is a manager that runs.
type testNode struct {
	*Manager
	talk *talk
	stop func()
}

// run starts a manager; the test's end stops it and checks its error.
func run(t testing.TB, onions devp2p.Onions, cfg Config) *testNode {
	t.Helper()
	if cfg.Transport == nil {
		tr, err := devp2p.New(devp2p.Config{Onions: onions, DialAddr: noClear(t), IsolatePeers: true})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Transport = tr
		t.Cleanup(func() { tr.Close() })
	}
	if cfg.Key == nil {
		cfg.Key = nodetest.Key(t)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	p := newTalk()
	cfg.Protocols = append(cfg.Protocols, p.protocol())
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return &testNode{m, p, stop}
}

// await waits until a condition holds, looking often.
func await(t testing.TB, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("not in time: ", what)
		case <-tick.C:
		}
	}
}

// selfWithOnion waits for a node's record with its onion.
func selfWithOnion(t testing.TB, ctx context.Context, n *testNode) *enode.Node {
	t.Helper()
	await(t, ctx, "the onion in the record", func() bool {
		self := n.Self()
		if self == nil {
			return false
		}
		_, _, err := devp2p.OnionOf(self)
		return err == nil
	})
	return n.Self()
}

func signRecord(t testing.TB, key *ecdsa.PrivateKey, r *enr.Record) *enode.Node {
	t.Helper()
	if err := enode.SignV4(r, key); err != nil {
		t.Fatal(err)
	}
	n, err := enode.New(enode.ValidSchemes, r)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
