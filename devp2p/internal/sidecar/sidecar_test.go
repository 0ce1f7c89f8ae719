package sidecar

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/devp2p/onr"
	"github.com/chivenet/chive/internal/hscrypto"
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &fakeOnion{ln, n, devp2p.Onion3(hscrypto.Address([32]byte(pub)))}
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

func (o *fakeOnion) Onion() devp2p.Onion3            { return o.onion }
func (o *fakeOnion) Published(context.Context) error { return nil }

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
	udp    int           // guarded by mu: as if discovery were on
	port   string        // of the last run
	sub    func()
}

func newNode(t *testing.T) *fakeNode {
	t.Helper()
	n := &fakeNode{key: nodetest.Key(t), events: make(chan enode.ID, 100), port: "0"}
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
	_, n.port, _ = net.SplitHostPort(srv.ListenAddr)
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

func (n *fakeNode) setUDP(port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.udp = port
}

func (n *fakeNode) server() (*p2p.Server, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv == nil {
		return nil, errors.New("the node is away")
	}
	return n.srv, nil
}

func (n *fakeNode) connect(context.Context, string) (admin, error) {
	_, err := n.server()
	return n, err
}

func (n *fakeNode) Info(context.Context) (*p2p.NodeInfo, error) {
	srv, err := n.server()
	if err != nil {
		return nil, err
	}
	info := srv.NodeInfo()
	n.mu.Lock()
	info.Ports.Discovery = n.udp
	n.mu.Unlock()
	return info, nil
}

func (n *fakeNode) Peers(context.Context) ([]*p2p.PeerInfo, error) {
	srv, err := n.server()
	if err != nil {
		return nil, err
	}
	return srv.PeersInfo(), nil
}

func (n *fakeNode) AddPeer(_ context.Context, url string) error {
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

// private is a process that shows nothing.
func private(string) (*process, error) {
	return &process{args: []string{"geth", "--nodiscover", "--nat", "none", "--netrestrict=127.0.0.0/8"}}, nil
}

// startSidecar runs a sidecar and returns its reports. The last one is kept, others may
// be lost.
func startSidecar(t *testing.T, node *fakeNode, cfg Config) (s *Sidecar, reports <-chan Status) {
	t.Helper()
	ch := make(chan Status, 1)
	cfg.IPC, cfg.connect, cfg.process = "geth.ipc", node.connect, private
	cfg.Dir, cfg.Every = t.TempDir(), 20*time.Millisecond
	cfg.Report = func(s Status) {
		select {
		case <-ch:
		default:
		}
		ch <- s
	}
	s, err := New(cfg)
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
	return s, ch
}

// until waits for a report.
func until(t *testing.T, reports <-chan Status, what string, ok func(Status) bool) Status {
	t.Helper()
	timeout := time.After(time.Minute)
	var last Status
	for {
		select {
		case last = <-reports:
			if ok(last) {
				return last
			}
		case <-timeout:
			t.Fatalf("%s: not in a minute; the last report: %+v", what, last)
		}
	}
}

// TestMeet joins two nodes that know only a third, by onr/1 alone: over onions, in both
// directions, and again after one of them was away.
func TestMeet(t *testing.T) {
	nw := &fakeNet{}
	third := startThird(t, nw)
	a, b := newNode(t), newNode(t)
	_, reportsA := startSidecar(t, a, Config{Onions: nw, OnlyOnion: true, Static: []*enode.Node{third}})
	got := until(t, reportsA, "A is at the third", func(s Status) bool { return s.Contacts == 1 && s.Record != nil })
	if !got.Private || got.Problem != "" {
		t.Errorf("A is not private: %+v", got)
	}
	if behind, ok, err := onr.Behind(got.Record); err != nil || !ok || behind.ID() != a.id() {
		t.Errorf("A's record leads to %v, %v", behind, err)
	}
	if got.Record.ID() == a.id() {
		t.Error("the sidecar has the node's identity")
	}
	_, reportsB := startSidecar(t, b, Config{Onions: nw, OnlyOnion: true, Static: []*enode.Node{third}})
	a.await(t, b.id())
	b.await(t, a.id())
	// B ends, its sidecar goes on. It comes back at the same port and knows nobody.
	b.stop()
	away := until(t, reportsB, "B is away", func(s Status) bool { return !s.Node })
	if away.Private || !strings.Contains(away.Problem, "IPC") {
		t.Errorf("%+v", away)
	}
	b.start(t)
	b.await(t, a.id())
}

// startThird runs a node that speaks nothing but onr/1.
func startThird(t *testing.T, nw *fakeNet) *enode.Node {
	t.Helper()
	tr, err := devp2p.New(devp2p.Config{Onions: nw})
	if err != nil {
		t.Fatal(err)
	}
	m, err := peers.New(peers.Config{Key: nodetest.Key(t), Transport: tr})
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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // the manager tells nobody
		if n := m.Self(); n != nil && tellsOnion(n) {
			return n
		}
		if time.Now().After(deadline) {
			t.Fatal("the third node has no onion")
		}
	}
}

// TestNotPrivate opens no onion while the node leaks, and closes it when it begins to.
func TestNotPrivate(t *testing.T) {
	nw := &fakeNet{}
	node := newNode(t)
	node.setUDP(30303)
	_, reports := startSidecar(t, node, Config{Onions: nw, OnlyOnion: true})
	s := until(t, reports, "the leak", func(s Status) bool { return len(s.Leaks) > 0 })
	if s.Private || s.Onion != "" || nw.len() != 0 || !strings.Contains(s.Leaks[0].Fix, "--nodiscover") {
		t.Errorf("%+v", s)
	}
	node.setUDP(0)
	until(t, reports, "the onion", func(s Status) bool { return s.Private && s.Record != nil && nw.len() == 1 })
	node.setUDP(30303)
	until(t, reports, "the end of the onion", func(s Status) bool { return !s.Private && s.Record == nil && nw.len() == 0 })
}

// TestOnionAway reports an onion that cannot be opened, and tries again.
func TestOnionAway(t *testing.T) {
	nw := &fakeNet{}
	nw.setBroken(errors.New("no circuits"))
	_, reports := startSidecar(t, newNode(t), Config{Onions: nw})
	until(t, reports, "the problem", func(s Status) bool { return s.Node && s.Problem != "" && s.Record == nil })
	nw.setBroken(nil)
	s := until(t, reports, "the onion", func(s Status) bool { return s.Record != nil })
	if s.Private {
		t.Error("private without only-onion")
	}
}

// hungNode does not answer.
type hungNode struct {
	admin
	closed bool
}

func (n *hungNode) RemovePeer(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (n *hungNode) Close() { n.closed = true }

// TestHungNode: a node that does not answer a call is called no more, so that many forwards
// end in the time of one.
func TestHungNode(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := &Sidecar{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	hung := &hungNode{}
	st := &state{admin: hung}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s.call(ctx, st, admin.RemovePeer, &opened{forward: &forward{dest: nodeAt(t, 1, 1), ln: ln}})
	if st.admin != nil || !hung.closed {
		t.Error("a node that hangs is kept")
	}
}

// TestForwardFails closes the node's connection if the onion is away, and the port at the
// end.
func TestForwardFails(t *testing.T) {
	nw := &fakeNet{}
	ln, err := nw.ListenOnion(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := devp2p.New(devp2p.Config{Onions: nw})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var r enr.Record
	r.Set(ln.Onion())
	r.Set(enr.TCP(1))
	if err := enode.SignV4(&r, nodetest.Key(t)); err != nil {
		t.Fatal(err)
	}
	dest, err := enode.New(enode.ValidSchemes, &r)
	if err != nil {
		t.Fatal(err)
	}
	f, err := openForward(t.Context(), tr, dest)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", f.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	// The connection that was made ahead is the first that is used.
	c := dial()
	onion, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onion.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a connection to an onion that is away")
	}
	f.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection after the forward's end")
	}
	if _, err := net.Dial("tcp", f.ln.Addr().String()); err == nil {
		t.Error("the port is open after the end")
	}
	if _, err := openForward(t.Context(), tr, dest); err == nil {
		t.Error("a forward to an onion that is away")
	}
}
