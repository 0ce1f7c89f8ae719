package ethnode

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/beacon"
	"github.com/ethereum/go-ethereum/consensus/ethash"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/kzg4844"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
)

var (
	testKey, _ = crypto.HexToECDSA("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291")
	testAddr   = crypto.PubkeyToAddress(testKey.PublicKey)
	testChain  = sync.OnceValues(makeChain)
)

type blockchain struct {
	chain *core.BlockChain
	spec  *core.Genesis
}

// testConfig are the rules of the test's chain: those of Cancun, since later forks need
// contracts in the genesis.
func testConfig() *params.ChainConfig {
	c := *params.MergedTestChainConfig
	c.PragueTime, c.OsakaTime, c.BPO1Time, c.BPO2Time, c.BPO3Time, c.BPO4Time, c.BPO5Time, c.AmsterdamTime = nil, nil, nil, nil, nil, nil, nil, nil
	return &c
}

// makeChain makes go-ethereum's own chain, of 80 blocks with a transaction each.
func makeChain() (*blockchain, error) {
	spec := &core.Genesis{
		Config:     testConfig(),
		Alloc:      types.GenesisAlloc{testAddr: {Balance: big.NewInt(1e18)}},
		Difficulty: new(big.Int), GasLimit: 30_000_000, BaseFee: big.NewInt(params.InitialBaseFee),
	}
	engine := beacon.New(ethash.NewFaker())
	chain, err := core.NewBlockChain(rawdb.NewMemoryDatabase(), spec, engine, nil)
	if err != nil {
		return nil, err
	}
	_, blocks, _ := core.GenerateChainWithGenesis(spec, engine, 80, func(i int, b *core.BlockGen) {
		b.AddTx(signedTx(testKey, uint64(i), 0))
	})
	if _, err := chain.InsertChain(blocks); err != nil {
		return nil, err
	}
	return &blockchain{chain, spec}, nil
}

func signedTx(key *ecdsa.PrivateKey, nonce uint64, data int) *types.Transaction {
	config := testConfig()
	return types.MustSignNewTx(key, types.LatestSigner(config), &types.DynamicFeeTx{
		ChainID: config.ChainID, Nonce: nonce, GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(10 * params.InitialBaseFee),
		Gas: 21000 + 40*uint64(data), To: &common.Address{1}, Value: big.NewInt(1), Data: make([]byte, data),
	})
}

// A gethPeer is go-ethereum's own handler of the eth protocol, on a chain of its own.
type gethPeer struct {
	*blockchain
	id   enode.ID
	peer *eth.Peer
	done chan error // what the node's side ended with
	pipe *p2p.MsgPipeRW

	mu   sync.Mutex
	pool map[common.Hash]*types.Transaction
	got  chan eth.Packet
}

func (g *gethPeer) Chain() *core.BlockChain { return g.chain }
func (g *gethPeer) TxPool() eth.TxPool      { return g }
func (g *gethPeer) BlobPool() eth.BlobPool  { return noBlobs{} }
func (g *gethPeer) AcceptTxs() bool         { return true }
func (g *gethPeer) RunPeer(p *eth.Peer, h eth.Handler) error {
	return h(p)
}
func (g *gethPeer) PeerInfo(enode.ID) any { return nil }
func (g *gethPeer) Handle(_ *eth.Peer, p eth.Packet) error {
	g.got <- p
	return nil
}
func (g *gethPeer) Get(h common.Hash) *types.Transaction {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pool[h]
}
func (g *gethPeer) GetRLP(h common.Hash, _ uint) []byte {
	tx := g.Get(h)
	if tx == nil {
		return nil
	}
	raw, err := rlp.EncodeToBytes(tx)
	if err != nil {
		panic(err)
	}
	return raw
}
func (g *gethPeer) GetMetadata(h common.Hash) *txpool.TxMetadata {
	tx := g.Get(h)
	if tx == nil {
		return nil
	}
	return &txpool.TxMetadata{Type: tx.Type(), Size: tx.Size()}
}
func (g *gethPeer) add(txs ...*types.Transaction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, tx := range txs {
		g.pool[tx.Hash()] = tx
	}
}

type noBlobs struct{}

func (noBlobs) GetBlobHashes(common.Hash) []common.Hash { return nil }
func (noBlobs) GetBlobCells([]common.Hash, types.CustodyBitmap) ([][]*kzg4844.Cell, [][]*kzg4844.Proof, error) {
	return nil, nil, nil
}
func (noBlobs) GetCustody(common.Hash) *types.CustodyBitmap { return nil }
func (noBlobs) Has(common.Hash) bool                        { return false }

// pipePeer connects a new peer with a node over a pipe, without a handshake. It returns the
// peer's end, and what the node's end returned.
func pipePeer(t *testing.T, n *Node, version uint, name string) (*p2p.MsgPipeRW, enode.ID, chan error) {
	t.Helper()
	theirs, ours := p2p.MsgPipe()
	var id enode.ID
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	copy(id[:], crypto.Keccak256(crypto.FromECDSAPub(&key.PublicKey)))
	done := make(chan error, 1)
	go func() {
		done <- n.serve(p2p.NewPeerPipe(id, name, nil, ours), ours, version)
		ours.Close()
	}()
	t.Cleanup(func() { theirs.Close() })
	return theirs, id, done
}

// connectGeth connects go-ethereum with a node.
func connectGeth(t *testing.T, n *Node, version uint) *gethPeer {
	t.Helper()
	c, err := testChain()
	if err != nil {
		t.Fatal(err)
	}
	rw, id, done := pipePeer(t, n, version, "Geth/v1.17.10")
	g := &gethPeer{blockchain: c, id: id, done: done, pipe: rw, pool: make(map[common.Hash]*types.Transaction), got: make(chan eth.Packet, 64)}
	g.peer = eth.NewPeer(version, p2p.NewPeerPipe(enode.ID{byte(version)}, "chive", nil, rw), rw, g, g.BlobPool(), c.chain.Config())
	head := c.chain.CurrentBlock()
	err = g.peer.Handshake(c.spec.Config.ChainID.Uint64(), c.chain, eth.BlockRangeUpdatePacket{
		LatestBlock: head.Number.Uint64(), LatestBlockHash: head.Hash(),
	})
	if err != nil {
		t.Fatalf("geth refuses our status: %v", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := eth.Handle(g, g.peer); !errors.Is(err, p2p.ErrPipeClosed) {
			t.Errorf("geth ends the connection: %v", err)
		}
	}()
	t.Cleanup(func() {
		rw.Close()
		<-served
		g.peer.Close()
	})
	return g
}

// newTestNode returns a node that runs until the end of the test.
func newTestNode(t *testing.T, c Config) *Node {
	t.Helper()
	n := New(c)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return n
}

func chainOf(t *testing.T) *Chain {
	t.Helper()
	b, err := testChain()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewChain(b.spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits for a condition. It fails after a time that no machine needs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // there is no event to wait for
	}
}

func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}
