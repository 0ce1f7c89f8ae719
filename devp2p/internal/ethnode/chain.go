package ethnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/forkid"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"

	"github.com/chivenet/chive/program"
)

// maxGenesis bounds a genesis file, in bytes.
const maxGenesis = 64 << 20

// A Chain says which blockchain the node belongs to.
type Chain struct {
	Network uint64      // the network ID
	Genesis common.Hash // the hash of the first block
	Config  *params.ChainConfig

	block *types.Block // the first block
}

// networks are the Ethereum networks that are known by name.
var networks = map[string]struct {
	id      uint64
	genesis func() *core.Genesis
}{
	"mainnet": {1, core.DefaultGenesisBlock},
	"sepolia": {11155111, core.DefaultSepoliaGenesisBlock},
	"hoodi":   {560048, core.DefaultHoodiGenesisBlock},
}

// Networks returns the names that NamedChain knows.
func Networks() []string { return slices.Sorted(maps.Keys(networks)) }

// NamedChain returns the chain of an Ethereum network.
func NamedChain(name string) (*Chain, error) {
	n, ok := networks[name]
	if !ok {
		return nil, fmt.Errorf("ethnode: network %q: want one of %s, or a genesis file", name, strings.Join(Networks(), ", "))
	}
	return newChain(n.genesis(), n.id)
}

// ReadChain returns the chain of a genesis file, as geth init reads it. A network ID of 0
// means that it is the chain ID.
func ReadChain(path string, network uint64) (*Chain, error) {
	raw, err := program.ReadFile(path, maxGenesis)
	if err != nil {
		return nil, err
	}
	g := new(core.Genesis)
	if err := json.Unmarshal(raw, g); err != nil {
		return nil, fmt.Errorf("%s: it is no genesis as geth init reads it: %w", path, err)
	}
	c, err := newChain(g, network)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// NewChain returns the chain of a genesis. A network ID of 0 means that it is the chain ID.
func NewChain(g *core.Genesis, network uint64) (*Chain, error) { return newChain(g, network) }

func newChain(g *core.Genesis, network uint64) (*Chain, error) {
	if g.Config == nil || g.Config.ChainID == nil {
		return nil, errors.New("the genesis names no chain ID")
	}
	if network == 0 {
		if !g.Config.ChainID.IsUint64() {
			return nil, errors.New("the chain ID is no network ID: name the network ID")
		}
		network = g.Config.ChainID.Uint64()
	}
	block := g.ToBlock()
	return &Chain{Network: network, Genesis: block.Hash(), Config: g.Config, block: block}, nil
}

// learntChain returns the chain of peers' status messages. Its forks are not known: as to
// transactions, it has the rules of Prague, which no later fork loosens for a node that
// only relays.
func learntChain(network uint64, genesis common.Hash) *Chain {
	zero := new(uint64)
	config := *params.MergedTestChainConfig
	config.ChainID = new(big.Int).SetUint64(network)
	config.ShanghaiTime, config.CancunTime, config.PragueTime = zero, zero, zero
	config.OsakaTime, config.BPO1Time, config.BPO2Time = nil, nil, nil
	config.BPO3Time, config.BPO4Time, config.BPO5Time = nil, nil, nil
	config.AmsterdamTime, config.UBTTime = nil, nil
	return &Chain{Network: network, Genesis: genesis, Config: &config}
}

// learnt reports whether the chain is known from peers only.
func (c *Chain) learnt() bool { return c.block == nil }

// forkID returns the identifier of the fork that is active at a head.
func (c *Chain) forkID(head *types.Header) forkid.ID {
	return forkid.NewID(c.Config, c.block, head.Number.Uint64(), head.Time)
}

// view is the chain at a head, as package forkid wants it.
type view struct {
	chain *Chain
	head  *types.Header
}

func (v view) Config() *params.ChainConfig  { return v.chain.Config }
func (v view) Genesis() *types.Block        { return v.chain.block }
func (v view) CurrentHeader() *types.Header { return v.head }

// unknownHead stands for the newest block while no peer has told of one. As to rules of
// transactions, all forks up to now are active, and no limit of gas is known.
func unknownHead(now time.Time) *types.Header {
	return &types.Header{
		Number:     new(big.Int).SetUint64(1 << 62),
		Difficulty: new(big.Int),
		Time:       uint64(now.Unix()),
		GasLimit:   1 << 62,
	}
}
