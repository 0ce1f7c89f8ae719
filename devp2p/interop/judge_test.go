package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/devp2p/internal/sidecar"
	"github.com/chivenet/chive/devp2p/onr"
	"github.com/chivenet/chive/lab"
)

const chainID = 3503995874084926

// number reads a hex number.
func number(t *testing.T, hex string) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(strings.TrimPrefix(hex, "0x"), 16)
	if !ok {
		t.Fatalf("no number: %q", hex)
	}
	return n
}

// startLab runs an onion network.
func startLab(t *testing.T, opts lab.Options) *lab.Network {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	opts.VotingInterval = 5 * time.Minute // onion services keep their time period
	nw, err := lab.Start(ctx, opts)
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

// client starts one more client of the network.
func client(t *testing.T, nw *lab.Network) *chive.Client {
	t.Helper()
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := chive.New(chive.Config{Network: network, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// beside runs a sidecar for a geth, and returns its reports; the last one is kept.
func beside(t *testing.T, g *geth, onions devp2p.Onions, static ...*enode.Node) <-chan sidecar.Status {
	t.Helper()
	ch := make(chan sidecar.Status, 1)
	s, err := sidecar.New(sidecar.Config{IPC: g.ipc, Dir: t.TempDir(), Onions: onions, OnlyOnion: true, Static: static, Every: 500 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Report: func(s sidecar.Status) {
			select {
			case <-ch:
			default:
			}
			ch <- s
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ch
}

// until waits for a report.
func until(t *testing.T, reports <-chan sidecar.Status, what string, ok func(sidecar.Status) bool) sidecar.Status {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	var last sidecar.Status
	for {
		select {
		case last = <-reports:
			if ok(last) {
				return last
			}
		case <-timeout:
			t.Fatalf("%s: not in two minutes; the last report: %+v", what, last)
		}
	}
}

func published(s sidecar.Status) bool { return s.Record != nil && s.Private }

// judgeTries is how often the judge may be asked. It gives each answer of geth's two
// seconds, which are not enough on a machine with much else to do.
const judgeTries = 3

// TestJudge has go-ethereum's own suite test a stock geth through an onion.
func TestJudge(t *testing.T) {
	devp2pPath := gethtest.Program(t, "devp2p")
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	nw := startLab(t, lab.Options{})
	onions := devp2p.Embedded(client(t, nw))
	for try := 1; ; try++ {
		g := startGeth(t) // the suite changes its chain
		s := until(t, beside(t, g, onions), "the onion", published)
		// The judge dials an IP address: a port of loopback leads to the onion.
		node, err := enode.ParseV4(g.info.Enode)
		if err != nil {
			t.Fatal(err)
		}
		addr := forward(t, nw.Client, net.JoinHostPort(s.Onion.Addr(), "30303"))
		url := enode.NewV4(node.Pubkey(), addr.IP, addr.Port, 0).URLv4()
		judge := func(args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			began := time.Now()
			out, err := exec.CommandContext(ctx, devp2pPath, append([]string{"rlpx"}, args...)...).CombinedOutput()
			t.Logf("devp2p rlpx %s: %v, %v", args[0], time.Since(began).Round(time.Millisecond), err)
			return string(out), err
		}
		if out, err := judge("ping", url); err != nil || !strings.Contains(out, "eth") {
			t.Fatalf("ping: %v\n%s", err, out)
		}
		out, err := judge("eth-test", "--chain", data, "--node", url, "--engineapi", g.engine, "--jwtsecret", secret)
		passed := regexp.MustCompile(`(\d+)/(\d+) tests passed`).FindStringSubmatch(out)
		if err == nil && passed != nil && passed[0] == "24/24 tests passed" {
			t.Log(passed[0])
			return
		}
		if try == judgeTries {
			t.Fatalf("the judge says %q, %v\n%s", passed, err, out)
		}
		t.Logf("the judge says %q; it is asked again", passed)
	}
}

// forward opens a port of loopback that leads to an onion.
func forward(t *testing.T, c *chive.Client, onion string) *net.TCPAddr {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer in.Close()
				out, err := c.DialContext(t.Context(), "tcp", onion)
				if err != nil {
					t.Errorf("the onion: %v", err)
					return
				}
				defer out.Close()
				wg.Go(func() {
					_, _ = io.Copy(out, in)
					out.Close()
				})
				_, _ = io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().(*net.TCPAddr)
}

// third runs a node that only speaks onr/1, and returns its record.
func third(t *testing.T, onions devp2p.Onions) *enode.Node {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := devp2p.New(devp2p.Config{Onions: onions})
	if err != nil {
		t.Fatal(err)
	}
	m, err := peers.New(peers.Config{Key: key, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	m.Handle(onr.Protocol(m, onr.Config{}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		tr.Close()
	})
	timeout := time.After(2 * time.Minute)
	for {
		if n := m.Self(); n != nil {
			if _, _, err := devp2p.OnionOf(n); err == nil {
				return n
			}
		}
		select {
		case <-timeout:
			t.Fatal("the third node's onion is not there after two minutes")
		case <-time.After(50 * time.Millisecond): // the manager tells nobody
		}
	}
}

// TestTwoGeths joins two stock geths that know only a third node, by onr/1 alone, and sends
// a transaction from one to the other.
func TestTwoGeths(t *testing.T) {
	nw := startLab(t, lab.Options{})
	a, b := startGeth(t), startGeth(t)
	c := third(t, devp2p.Embedded(nw.Client))
	meet(t, a, b, c, devp2p.Embedded(client(t, nw)), devp2p.Embedded(client(t, nw)))
}

// meet runs two sidecars that know c, and waits until the geths have met and a transaction
// went over.
func meet(t *testing.T, a, b *geth, c *enode.Node, onionsA, onionsB devp2p.Onions) {
	t.Helper()
	a.follow(t)
	b.follow(t)
	began := time.Now()
	until(t, beside(t, a, onionsA, c), "A is at the third node", func(s sidecar.Status) bool { return published(s) && s.Contacts > 0 })
	t.Logf("A is reachable and at the third node after %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	beside(t, b, onionsB, c)
	for _, g := range []struct {
		self  *geth
		other string
	}{{a, b.info.ID}, {b, a.info.ID}} {
		g.self.await(t, "the other geth as a peer", func(ctx context.Context) bool {
			var list []struct {
				ID        string
				Protocols map[string]json.RawMessage
			}
			if err := g.self.client.CallContext(ctx, &list, "admin_peers"); err != nil {
				return false
			}
			for _, p := range list {
				if p.ID == g.other {
					return speaksNewest(t, p.Protocols)
				}
			}
			return false
		})
	}
	t.Logf("the geths met %v after B's sidecar started", time.Since(began).Round(time.Millisecond))
	send(t, a, b)
}

// speaksNewest reports whether two geths have shaken hands in eth and snap, and fails if eth is not of the newest
// version that geth has: sidecars pass on what geths agree on.
func speaksNewest(t *testing.T, protocols map[string]json.RawMessage) bool {
	t.Helper()
	var speaks struct{ Version uint }
	if json.Unmarshal(protocols["eth"], &speaks) != nil || protocols["snap"] == nil {
		return false // "handshake", not yet
	}
	if speaks.Version != slices.Max(eth.ProtocolVersions) {
		t.Errorf("the geths speak eth/%d with each other, and both have eth/%d", speaks.Version, slices.Max(eth.ProtocolVersions))
	}
	return true
}

// hasOnion reports whether a record has an onion.
func hasOnion(record string) bool {
	n, err := enode.Parse(enode.ValidSchemes, record)
	if err != nil {
		return false
	}
	_, _, err = devp2p.OnionOf(n)
	return err == nil
}

// send gives a transaction to one geth and waits until the other has it.
func send(t *testing.T, a, b *geth) {
	t.Helper()
	tx := transaction(t, a)
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := a.client.CallContext(t.Context(), nil, "eth_sendRawTransaction", fmt.Sprintf("0x%x", raw)); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the transaction", func(ctx context.Context) bool {
		var got *struct{ Hash string }
		return b.client.CallContext(ctx, &got, "eth_getTransactionByHash", tx.Hash()) == nil && got != nil
	})
	t.Logf("the transaction arrived after %v", time.Since(began).Round(time.Millisecond))
}
