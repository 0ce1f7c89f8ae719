package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/ethnode"
	"github.com/chivenet/chive/devp2p/internal/ethnode/broadcast"
	"github.com/chivenet/chive/devp2p/internal/ethnode/pool"
	"github.com/chivenet/chive/devp2p/internal/find"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/devp2p/internal/reads"
	"github.com/chivenet/chive/devp2p/internal/rpcserver"
	"github.com/chivenet/chive/devp2p/onr"
	"github.com/chivenet/chive/program"
)

// events says which event of a peer's score an event of the eth protocol is.
var events = map[ethnode.Event]peers.Event{
	ethnode.Useful:    peers.Useful,
	ethnode.Useless:   peers.Useless,
	ethnode.Slow:      peers.SlowAnswer,
	ethnode.Unasked:   peers.Unasked,
	ethnode.Malformed: peers.Malformed,
	ethnode.Wrong:     peers.Unasked, // the connection ends; a ban needs more of them
	ethnode.Flood:     peers.TooMany,
	ethnode.Foreign:   peers.WrongNetwork,
}

// relay is a running chive-eth relay.
type relay struct {
	policy  devp2p.Policy
	node    *ethnode.Node
	manager *peers.Manager
	queue   *broadcast.Queue
	static  []*enode.Node
	began   time.Time
	rpc     string // the address of the JSON-RPC server, or empty
}

// run runs the relay until ctx ends.
func (s *relaySettings) run(ctx context.Context, out, logs io.Writer) (err error) {
	level := slog.LevelInfo
	if s.verbose {
		level = slog.LevelDebug
	}
	log := program.NewLog(level, logs)
	if err := positive(number{"maxpeers", s.maxPeers}, number{"pool-bytes", s.poolBytes}); err != nil {
		return err
	}
	if err := errors.Join(port("listen", s.onionPort), addresses(map[string]string{"listen-addr": s.listen, "discv5": s.discv5}),
		loopback(map[string]string{"rpc": s.rpc, "metrics": s.metrics})); err != nil {
		return err
	}
	if err := s.wallets.check(); err != nil {
		return err
	}
	policy, err := s.choose()
	if err != nil {
		return err
	}
	rules, err := ethnode.ParseRules(s.classes, policy)
	if err != nil {
		return fmt.Errorf("--classes: %w", err)
	}
	chain, err := s.chain()
	if err != nil {
		return err
	}
	dir, lock, err := ownDir(s.dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	key, err := nodeKey(s.nodeKey, dir)
	if err != nil {
		return err
	}
	var lists [3][]*enode.Node
	for i, f := range []struct {
		name   string
		values []string
	}{{"static", s.static}, {"trusted", s.trusted}, {"bootnodes", s.boot}} {
		if lists[i], err = find.Nodes(f.values); err != nil {
			return fmt.Errorf("--%s: %w", f.name, err)
		}
	}
	listed, err := s.finding.files()
	if err != nil {
		return err
	}
	onions, closeOnions, err := s.open(policy, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeOnions()) }()
	transport, err := devp2p.New(devp2p.Config{Policy: policy, Onions: onions, IsolatePeers: s.isolate, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transport.Close()) }()

	for i, n := range lists[0] {
		if _, err := transport.Route(n); err != nil {
			return fmt.Errorf("--static, node %d: %w", i+1, err)
		}
	}
	r := &relay{policy: policy, static: lists[0], began: time.Now()}
	if r.queue, err = broadcast.New(broadcast.Config{Targets: r.targets, Deliver: r.deliver, Dir: dir, Log: log}); err != nil {
		return err
	}
	var nonces func(context.Context, []common.Address) (map[common.Address]uint64, error)
	if s.wallets.address != nil {
		nonces = reads.Nonces(s.wallets.address, r.ChainID)
	}
	r.node = ethnode.New(ethnode.Config{
		Chain: chain, Policy: policy, Pool: pool.Limits{Bytes: s.poolBytes}, MinTip: s.tip(), NoBlobs: s.noBlobs, Rules: rules, Log: log,
		Score:   func(id enode.ID, e ethnode.Event) { r.manager.Score(id, events[e]) },
		RouteOf: func(id enode.ID) (devp2p.Route, bool) { return r.manager.RouteOf(id) },
		RTT:     transport.ObserveRTT,
		Seen:    r.queue.Seen,
		Mined:   r.queue.Mined,
		Used:    r.queue.Used,
		Nonces:  nonces,
	})
	if r.manager, err = peers.New(peers.Config{
		Key: key, Transport: transport, Protocols: r.node.Protocols(), Name: clientName(), MaxPeers: s.maxPeers,
		Static: lists[0], Trusted: lists[1], Dir: dir, NoOnion: s.onionPort == 0 || !policy.AllowsOnion(), Port: s.onionPort,
		ListenAddr: s.listen, Log: log,
	}); err != nil {
		return err
	}
	r.manager.Handle(onr.Protocol(r.manager, onr.Config{Log: log, Report: r.records}))
	for i, n := range lists[2] {
		if err := r.manager.Add(n, "bootnodes"); err != nil {
			return fmt.Errorf("--bootnodes, node %d: %w", i+1, err)
		}
	}
	for _, n := range listed {
		if err := r.manager.Add(n, "list"); err != nil {
			log.Debug("a node of a list cannot be used", "err", err)
		}
	}
	if len(r.manager.Status()) == 0 && s.finding.nowhere() {
		fmt.Fprintf(out, "No node is known: this relay reaches nobody until somebody comes to it. %s, or --bootnodes NODE.\n", whatToGive)
	}
	services, err := s.finding.services(&s.tor, policy, dir, key, lists[2], r.manager, log)
	if err != nil {
		return err
	}
	services = append(services, r.manager.Run, r.node.Run, r.queue.Run)
	status, err := serveStatus(dir, func() any { return r.status() })
	if err != nil {
		return err
	}
	services = append(services, status)
	if s.metrics != "" {
		serve, err := serveMetrics(s.metrics, r.node.Register)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		services = append(services, serve)
	}
	if s.rpc != "" {
		serve, err := s.wallets.serve(&s.tor, r, log, out)
		if err != nil {
			return err
		}
		services = append(services, serve)
	}
	fmt.Fprintf(out, "The relay runs with policy %s. chive-eth status shows its peers. Press Ctrl-C to end it.\n", policy)
	return runAll(ctx, services)
}

// runAll runs services until ctx ends or one of them fails, and waits for all.
func runAll(ctx context.Context, services []func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, f := range services {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func clientName() string { return ethnode.ClientName + "/" + runtime.GOOS + "/" + runtime.Version() }

// nodeKey reads the node's key. It is made in the data directory if no file is named.
func nodeKey(path, dir string) (*ecdsa.PrivateKey, error) {
	if path != "" {
		key, err := crypto.LoadECDSA(path)
		if err != nil {
			return nil, fmt.Errorf("--node-key: %w", err)
		}
		return key, nil
	}
	path = filepath.Join(dir, "nodekey")
	key, err := crypto.LoadECDSA(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = crypto.GenerateKey(); err != nil {
		return nil, err
	}
	return key, program.WriteFile(path, []byte(hex.EncodeToString(crypto.FromECDSA(key))), 0o600)
}

// records tells the peers' scores what came of exchanging node records.
func (r *relay) records(id enode.ID, kept int, err error) {
	switch {
	case err != nil:
		r.manager.Score(id, peers.BadRecord)
	case kept > 0:
		r.manager.Score(id, peers.Useful)
	}
}

// maxTargets bounds the nodes that a transaction may be sent to.
const maxTargets = 256

// targets returns the nodes that have onions, for private broadcast.
func (r *relay) targets() ([]*enode.Node, string) {
	if !r.policy.AllowsOnion() {
		return nil, "policy clearnet reaches no onions, and a transaction of this node leaves by nothing else"
	}
	var all []*enode.Node
	seen := map[enode.ID]bool{}
	for _, n := range append(r.manager.Known(maxTargets), r.static...) {
		if behind, ok, err := onr.Behind(n); err == nil && ok {
			n = behind // a sidecar takes no transactions
		}
		if _, _, err := devp2p.OnionOf(n); err == nil && !seen[n.ID()] {
			seen[n.ID()] = true
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, "no peer with an onion is known; it is sent as soon as there is one"
	}
	return all, ""
}

// deliver sends one transaction to a node, on a connection of its own.
func (r *relay) deliver(ctx context.Context, n *enode.Node, tx *types.Transaction) (broadcast.Delivery, error) {
	var mu sync.Mutex
	var got ethnode.Delivery
	var failed error
	err := r.manager.Dial(ctx, n, r.node.Deliver(tx, func(d ethnode.Delivery, err error) {
		mu.Lock()
		defer mu.Unlock()
		got, failed = d, err
	})...)
	mu.Lock()
	defer mu.Unlock()
	if got.Sent {
		err = nil // how the connection ended does not matter then
	} else if failed != nil {
		err = failed
	}
	return broadcast.Delivery{Sent: got.Sent, Accepted: got.Accepted}, err
}

// The methods of rpcserver.Node.

func (r *relay) ChainID() (uint64, bool) {
	c := r.node.Chain()
	if c == nil || !c.Config.ChainID.IsUint64() {
		return 0, false
	}
	return c.Config.ChainID.Uint64(), true
}

func (r *relay) NetworkID() (uint64, bool) {
	c := r.node.Chain()
	if c == nil {
		return 0, false
	}
	return c.Network, true
}

// BlockNumber asks peers: by themselves, they tell of a new block only each 32 blocks. If they do
// not agree now, it is what they told last.
func (r *relay) BlockNumber(ctx context.Context) (uint64, bool) {
	headers, _, err := r.node.Agreed(ctx)
	if err != nil {
		return r.node.HeadNumber()
	}
	return headers[0].Number.Uint64(), true
}

func (r *relay) PeerCount() int        { return r.node.PeerCount() }
func (r *relay) ClientVersion() string { return clientName() }

func (r *relay) Send(tx *types.Transaction) (state, why string, err error) {
	if err := r.node.Check(tx); err != nil {
		return "", "", rpcserver.Errorf(rpcserver.CodeRefused, "the transaction is not valid: %v", err)
	}
	st, why, err := r.queue.Submit(tx)
	if errors.Is(err, broadcast.ErrKnown) {
		return string(st), why, nil // as a wallet that asks twice expects
	}
	return string(st), why, err
}

func (r *relay) Sent(h common.Hash) (any, bool) { return r.queue.Of(h) }

// serveMetrics serves what register adds at an address of loopback.
func serveMetrics(addr string, register func(*program.Metrics)) (func(context.Context) error, error) {
	metrics := program.NewMetrics()
	register(metrics)
	l, err := program.ListenLoopback(addr)
	if err != nil {
		return nil, err
	}
	return serveHTTP(l, "/metrics", metrics), nil
}
