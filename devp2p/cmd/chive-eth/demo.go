package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/ethnode/broadcast"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/lab"
)

const demoLong = `Show on this machine how a transaction travels over onions: the command starts a whole Tor
network on loopback, and in it two relay nodes and the node of a wallet, each with a Tor
client of its own. The second relay and the wallet's node know only the first relay. They
find each other by onr/1. Then the wallet sends a transaction.

Nothing leaves the machine, and nothing is left of it at the end. It takes less than a
minute.`

func demoCommand() *cobra.Command {
	d := new(demo)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a transaction's way over onions, in a network on this machine",
		Long:  demoLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.out, d.logs = cmd.OutOrStdout(), io.Discard
			if d.verbose {
				d.logs = cmd.ErrOrStderr()
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTime)
			defer cancel()
			return d.run(ctx)
		},
	}
	cmd.Flags().BoolVar(&d.verbose, "verbose", false, "show the nodes' logs")
	return cmd
}

// demoTime bounds the whole demonstration, on slow machines too.
const demoTime = 5 * time.Minute

// demoGenesis is a chain that is a day old for ever: all its rules count from the start.
const demoGenesis = `{"config": {"chainId": 424242, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
"byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
"mergeNetsplitBlock": 0, "shanghaiTime": 0, "terminalTotalDifficulty": 0},
"difficulty": "0x0", "gasLimit": "0x1c9c380", "baseFeePerGas": "0x3b9aca00", "alloc": {}}`

const demoChain = 424242

// demo is the demonstration.
type demo struct {
	verbose   bool
	out, logs io.Writer
	began     time.Time
	dir       string
	names     map[enode.ID]string
}

// say prints what happened, with the time since the start.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.1f s  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) (err error) {
	d.began, d.names = time.Now(), map[enode.ID]string{}
	if d.dir, err = os.MkdirTemp("", "chive-eth-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	genesis := filepath.Join(d.dir, "genesis.json")
	if err := os.WriteFile(genesis, []byte(demoGenesis), 0o600); err != nil {
		return err
	}
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nw.Close()) }()
	d.say("A Tor network runs on loopback: %d authorities and relays.", len(nw.Nodes()))

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ended []chan struct{}
	defer func() {
		cancel(nil)
		for _, e := range ended {
			<-e
		}
	}()
	start := func(name string, change func(*relaySettings)) (*demoNode, error) {
		s := &relaySettings{genesis: genesis, networks: []string{nw.NetworkFile}, dataDir: filepath.Join(d.dir, name),
			onionPort: 30303, maxPeers: 10, poolBytes: 1 << 20}
		s.only, s.isolate = true, true
		change(s)
		done := make(chan struct{})
		ended = append(ended, done)
		go func() {
			defer close(done)
			if err := s.run(ctx, io.Discard, d.logs); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		}()
		n := &demoNode{name: name, socket: filepath.Join(s.dataDir, socketName)}
		return n, d.await(ctx, func() (bool, error) { return n.ready(ctx, d) })
	}
	first, err := start("first", func(*relaySettings) {})
	if err != nil {
		return err
	}
	d.say("The first relay has an onion: %s", first.onion.Addr())
	second, err := start("second", func(s *relaySettings) { s.static = []string{first.record} })
	if err != nil {
		return err
	}
	d.say("The second relay has one, too, and knows the first: %s", second.onion.Addr())
	wallet, err := start("wallet", func(s *relaySettings) { s.static, s.rpc = []string{first.record}, "127.0.0.1:0" })
	if err != nil {
		return err
	}
	d.say("The wallet's node has its onion. It knows the first relay only, and takes transactions at http://%s", wallet.rpc)

	if err := d.await(ctx, func() (bool, error) { return d.connected(ctx, wallet, first, second) }); err != nil {
		return err
	}
	if err := d.await(ctx, func() (bool, error) { return d.connected(ctx, first, second) }); err != nil {
		return err
	}
	for _, n := range []*demoNode{first, second, wallet} {
		if err := d.showPeers(ctx, n); err != nil {
			return err
		}
	}
	tx, err := demoTransaction()
	if err != nil {
		return err
	}
	if err := wallet.send(ctx, tx); err != nil {
		return err
	}
	d.say("The wallet sent transaction %s", tx.Hash())
	return d.follow(ctx, tx.Hash(), wallet, first, second)
}

// await asks until something is so.
func (d *demo) await(ctx context.Context, ok func() (bool, error)) error {
	for {
		is, err := ok()
		if is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond): // a relay's socket answers, and tells nothing by itself
		}
	}
}

// demoNode is a node of the demonstration.
type demoNode struct {
	name   string
	socket string
	record string
	onion  devp2p.Onion3
	id     enode.ID
	rpc    string
}

// status asks the node; nil: it does not answer yet.
func (n *demoNode) status(ctx context.Context) (*relayStatus, error) {
	raw, err := readStatus(ctx, n.socket)
	if err != nil {
		return nil, nil //nolint:nilerr // it is not up yet; a node that ended ends ctx
	}
	s := new(relayStatus)
	return s, json.Unmarshal(raw, s)
}

// ready reports whether the node has its onion.
func (n *demoNode) ready(ctx context.Context, d *demo) (bool, error) {
	s, err := n.status(ctx)
	if s == nil || err != nil || s.Record == "" {
		return false, err
	}
	self, err := enode.Parse(enode.ValidSchemes, s.Record)
	if err != nil {
		return false, err
	}
	if self.Load(&n.onion) != nil {
		return false, nil
	}
	n.record, n.id, n.rpc = s.Record, self.ID(), s.RPC
	d.names[n.id] = n.name
	return true, nil
}

// connected reports whether a node has others as peers.
func (d *demo) connected(ctx context.Context, n *demoNode, others ...*demoNode) (bool, error) {
	s, err := n.status(ctx)
	if s == nil || err != nil {
		return false, err
	}
	have := map[enode.ID]bool{}
	for _, p := range s.Node.Peers {
		have[p.ID] = true
	}
	for _, o := range others {
		if !have[o.id] {
			return false, nil
		}
	}
	return true, nil
}

// showPeers prints a node's peers, and how each is reached.
func (d *demo) showPeers(ctx context.Context, n *demoNode) error {
	s, err := n.status(ctx)
	if s == nil || err != nil {
		return err
	}
	for _, p := range s.Peers {
		if p.State != peers.Connected {
			continue
		}
		direction := "to"
		if p.Inbound {
			direction = "from"
		}
		d.say("  %-6s  %-4s %-6s  %s", n.name, direction, d.names[p.ID], devp2p.Route{Onion: p.Onion, Why: p.Why})
	}
	return nil
}

// demoTransaction makes a transaction of an account that nobody else has.
func demoTransaction() (*types.Transaction, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	to := crypto.PubkeyToAddress(key.PublicKey)
	return types.SignNewTx(key, types.LatestSignerForChainID(big.NewInt(demoChain)), &types.DynamicFeeTx{
		ChainID: big.NewInt(demoChain), GasTipCap: big.NewInt(2e9), GasFeeCap: big.NewInt(1e11), Gas: 21000, To: &to, Value: big.NewInt(1),
	})
}

// send gives a transaction to the node, as a wallet does.
func (n *demoNode) send(ctx context.Context, tx *types.Transaction) error {
	raw, err := tx.MarshalBinary()
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x%x"]}`, raw)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.rpc, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Result *common.Hash
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("the wallet's node refused the transaction: %s", answer.Error.Message)
	}
	return nil
}

// follow prints where the transaction is, until all relays have it and the wallet's node
// knows that an onion peer took it. The node would go on, in a minute or two, until a peer
// tells of it that did not get it from here; here all peers know it by then.
func (d *demo) follow(ctx context.Context, hash common.Hash, wallet *demoNode, relays ...*demoNode) error {
	var last broadcast.State
	at := map[string]bool{}
	return d.await(ctx, func() (bool, error) {
		for _, r := range relays {
			s, err := r.status(ctx)
			if err != nil {
				return false, err
			}
			if s != nil && s.Node.Accepted > 0 && !at[r.name] {
				at[r.name] = true
				if len(at) == 1 {
					d.say("The %s relay has it: from a connection that carried nothing else, over circuits of its own.", r.name)
				} else {
					d.say("The %s relay has it: from a relay, as any other transaction.", r.name)
				}
			}
		}
		s, err := wallet.status(ctx)
		if s == nil || err != nil {
			return false, err
		}
		for _, p := range s.Private {
			if p.Hash != hash {
				continue
			}
			if p.State != last {
				last = p.State
				d.say("The wallet's node says: %s: %s", p.State, cmp.Or(p.Why, "a random time, so that others learn less from when it comes"))
			}
			return p.Sent > 0 && len(at) == len(relays), nil
		}
		return false, errors.New("the wallet's node has forgotten the transaction")
	})
}
