package sidecar

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// fakeNet has onion services on loopback.
type fakeNet struct {
	mu     sync.Mutex
	at     map[string]string // guarded by mu: onion to address
	serial int               // guarded by mu
	broken error             // guarded by mu: of ListenOnion
}

type fakeOnion struct {
	net.Listener
	nw    *fakeNet
	onion devp2p.Onion3
}

func (n *fakeNet) DialOnion(ctx context.Context, addr, _ string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	n.mu.Lock()
	at := n.at[host]
	n.mu.Unlock()
	if at == "" {
		return nil, errors.New("no such onion")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", at)
}

func (n *fakeNet) ListenOnion(_ context.Context, keyDir string, port int) (devp2p.OnionListener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return nil, n.broken
	}
	n.serial++
	if keyDir == "" {
		keyDir = strconv.Itoa(n.serial)
	}
	seed := sha256.Sum256([]byte(keyDir))
	pub := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	address, err := chive.OnionAddress(pub)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &fakeOnion{ln, n, devp2p.Onion3(address)}
	if n.at == nil {
		n.at = map[string]string{}
	}
	n.at[o.onion.Addr()] = ln.Addr().String()
	return o, nil
}

func (n *fakeNet) setBroken(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = err
}

// len is how many onions there are.
func (n *fakeNet) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.at)
}

func (n *fakeNet) Close() error { return nil }

func (o *fakeOnion) Onion() devp2p.Onion3                { return o.onion }
func (o *fakeOnion) WaitPublished(context.Context) error { return nil }

func (o *fakeOnion) Close() error {
	o.nw.mu.Lock()
	delete(o.nw.at, o.onion.Addr())
	o.nw.mu.Unlock()
	return o.Listener.Close()
}

// fakeNode is a node with go-ethereum's p2p.Server and its admin interface.
type fakeNode struct {
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	srv    *p2p.Server   // guarded by mu; nil: it is away
	events chan enode.ID // peers that came
	shown  []socket      // guarded by mu: of the process
	starts int           // guarded by mu: of the process
	name   string        // guarded by mu: of the client
	refuse error         // guarded by mu: of AddPeer
	port   string        // of the last run
	sub    func()
}

func newNode(t *testing.T) *fakeNode {
	t.Helper()
	n := &fakeNode{key: nodetest.Key(t), events: make(chan enode.ID, 100), port: "0", name: "Geth/test"}
	n.start(t)
	t.Cleanup(n.stop)
	return n
}

func (n *fakeNode) id() enode.ID { return enode.PubkeyToIDV4(&n.key.PublicKey) }

func (n *fakeNode) start(t *testing.T) {
	t.Helper()
	srv := &p2p.Server{Config: p2p.Config{PrivateKey: n.key, NoDiscovery: true, MaxPeers: 20, ListenAddr: "127.0.0.1:" + n.port, Name: "test",
		Logger: log.NewLogger(slog.DiscardHandler),
		Protocols: []p2p.Protocol{{Name: "eth", Version: 69, Length: 1,
			Attributes: []enr.Entry{enr.WithEntry("eth", []struct{ A, B uint64 }{{1, 2}})},
			Run: func(_ *p2p.Peer, rw p2p.MsgReadWriter) error {
				_, err := rw.ReadMsg()
				return err
			}}}}}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	ch := make(chan *p2p.PeerEvent)
	sub := srv.SubscribeEvents(ch)
	go func() {
		for {
			select {
			case e := <-ch:
				if e.Type == p2p.PeerEventTypeAdd {
					n.events <- e.Peer
				}
			case <-sub.Err():
				return
			}
		}
	}()
	n.mu.Lock()
	n.srv, n.sub = srv, sub.Unsubscribe
	_, n.port, _ = net.SplitHostPort(srv.ListenAddr)
	n.starts++
	n.mu.Unlock()
}

func (n *fakeNode) stop() {
	n.mu.Lock()
	srv, sub := n.srv, n.sub
	n.srv = nil
	n.mu.Unlock()
	if srv != nil {
		srv.Stop()
		sub()
	}
}

// show sets the sockets by which the process can reach others.
func (n *fakeNode) show(s ...socket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shown = s
}

// set changes what the node is.
func (n *fakeNode) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *fakeNode) server() (*p2p.Server, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv == nil {
		return nil, errors.New("the node is away")
	}
	return n.srv, nil
}

func (n *fakeNode) connect(context.Context, endpoint) (admin, error) {
	_, err := n.server()
	return n, err
}

func (n *fakeNode) Info(context.Context) (*nodeInfo, error) {
	srv, err := n.server()
	if err != nil {
		return nil, err
	}
	info := new(nodeInfo)
	if err := asJSON(srv.NodeInfo(), info); err != nil {
		return nil, err
	}
	n.mu.Lock()
	info.Name = n.name
	n.mu.Unlock()
	return info, nil
}

func (n *fakeNode) Peers(context.Context) (out []*peerInfo, err error) {
	srv, err := n.server()
	if err != nil {
		return nil, err
	}
	return out, asJSON(srv.PeersInfo(), &out)
}

// asJSON reads what a node tells as it comes from its JSON-RPC.
func asJSON(from, to any) error {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	return err
}

// process is the node's process, which shows nothing but what the test says.
func (n *fakeNode) process(endpoint) (*process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	port, err := strconv.ParseUint(n.port, 10, 16)
	if err != nil {
		return nil, err
	}
	p := private()
	p.listens[uint16(port)] = true
	p.started = strconv.Itoa(n.starts)
	for _, s := range n.shown {
		p.sockets[s] = true
	}
	p.again = func() (*process, error) { return n.process(endpoint{}) }
	return p, nil
}

func (n *fakeNode) AddPeer(_ context.Context, url string) error {
	n.mu.Lock()
	err := n.refuse
	n.mu.Unlock()
	if err != nil {
		return err
	}
	return n.with(url, (*p2p.Server).AddPeer)
}

func (n *fakeNode) RemovePeer(_ context.Context, url string) error {
	return n.with(url, (*p2p.Server).RemovePeer)
}

func (n *fakeNode) with(url string, f func(*p2p.Server, *enode.Node)) error {
	srv, err := n.server()
	if err != nil {
		return err
	}
	to, err := enode.ParseV4(url)
	if err == nil {
		f(srv, to)
	}
	return err
}

func (n *fakeNode) Close() {}

// await waits until a node is a peer.
func (n *fakeNode) await(t *testing.T, id enode.ID) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case got := <-n.events:
			if got == id {
				return
			}
		case <-timeout:
			t.Fatal("the nodes did not meet in a minute")
		}
	}
}
