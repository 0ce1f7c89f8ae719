package sidecar

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/devp2p/onr"
)

// private is a process that shows nothing.
func private() *process {
	return &process{args: []string{"geth", "--nodiscover", "--nat", "none", "--netrestrict=127.0.0.0/8"}, sockets: map[socket]bool{}, listens: map[uint16]bool{}}
}

// startSidecar runs a sidecar and returns its reports. The last one is kept, others may
// be lost.
func startSidecar(t *testing.T, node *fakeNode, cfg Config) (s *Sidecar, reports <-chan Status) {
	t.Helper()
	ch := make(chan Status, 1)
	cfg.IPC, cfg.connect, cfg.process = "geth.ipc", node.connect, node.process
	cfg.Dir, cfg.Every = t.TempDir(), cmp.Or(cfg.Every, 20*time.Millisecond)
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

// TestAdd: a node that the caller found is asked for others, whether there is an onion then or
// not, and again when there is another onion.
func TestAdd(t *testing.T) {
	nw := &fakeNet{}
	node := newNode(t)
	s, reports := startSidecar(t, node, Config{Onions: nw})
	if err := s.Add(startThird(t, nw), "list"); err != nil {
		t.Fatal(err)
	}
	until(t, reports, "the first is asked", func(s Status) bool { return s.Contacts == 1 && s.Nodes == 1 })
	if err := s.Add(startThird(t, nw), "list"); err != nil {
		t.Fatal(err)
	}
	until(t, reports, "both are asked", func(s Status) bool { return s.Contacts == 2 })
	s.mu.Lock()
	found := len(s.found)
	for i := found; i < maxCandidates; i++ {
		s.found[enode.ID{byte(i), byte(i >> 8)}] = nodeAt(t, 1, 1)
	}
	s.mu.Unlock()
	if found != 2 {
		t.Errorf("%d nodes are kept for the next onion", found)
	}
	if err := s.Add(nodeAt(t, maxCandidates, 1), "list"); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("more nodes than there is room for: %v", err)
	}
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
	node.show(socket{udpSocket, 30303})
	_, reports := startSidecar(t, node, Config{Onions: nw, OnlyOnion: true})
	s := until(t, reports, "the leak", func(s Status) bool { return len(s.Leaks) > 0 })
	if s.Private || s.Onion != "" || nw.len() != 0 || !strings.Contains(s.Leaks[0].Fix, "--nodiscover") {
		t.Errorf("%+v", s)
	}
	node.show()
	node.stop()
	until(t, reports, "the node is away", func(s Status) bool { return !s.Node })
	node.start(t)
	until(t, reports, "the onion", func(s Status) bool { return s.Private && s.Record != nil && nw.len() == 1 })
	node.show(socket{connection, 443})
	until(t, reports, "the end of the onion", func(s Status) bool { return !s.Private && s.Record == nil && nw.len() == 0 })
}

// TestSeenOnce: a socket that is there for a moment closes the onion, between two looks at the node too, until
// the node was started again.
func TestSeenOnce(t *testing.T) {
	nw := &fakeNet{}
	node := newNode(t)
	_, reports := startSidecar(t, node, Config{Onions: nw, OnlyOnion: true, Every: time.Hour, watchEvery: time.Millisecond})
	until(t, reports, "the first look", func(s Status) bool { return s.Private })
	for deadline := time.Now().Add(time.Minute); nw.len() == 0; <-time.After(time.Millisecond) { // no look is near
		if time.Now().After(deadline) {
			t.Fatal("no onion")
		}
	}
	node.show(socket{udpSocket, 53})
	s := until(t, reports, "the end of the onion", func(s Status) bool { return !s.Private && nw.len() == 0 })
	if len(s.Leaks) != 1 || s.Leaks[0].Seen != "port 53" {
		t.Errorf("%+v", s.Leaks)
	}
	node.show()
	p, err := node.process(endpoint{})
	if err != nil {
		t.Fatal(err)
	}
	w := watched{}
	w.add(p)
	for i, c := range []struct {
		started string
		shown   []socket
		news    bool
		leaks   int
	}{
		{"1", []socket{{udpSocket, 53}}, true, 1},
		{"1", nil, false, 1},
		{"1", []socket{{udpSocket, 53}}, false, 1},
		{"1", []socket{{connection, 9}}, true, 2},
		{"2", nil, true, 0},
	} {
		next := private()
		next.started = c.started
		for _, s := range c.shown {
			next.sockets[s] = true
		}
		if news := w.add(next); news != c.news || len(w.proc.sockets) != c.leaks {
			t.Errorf("look %d: %v, %v", i, news, w.proc.sockets)
		}
	}
}

// TestOtherClient: a client whose flags are not known is judged by its sockets, after a while. It
// may refuse to be told of others.
func TestOtherClient(t *testing.T) {
	nw := &fakeNet{}
	third := startThird(t, nw)
	node := newNode(t)
	node.set(func() { node.name, node.refuse = "reth/v1", errors.New("no such method") })
	_, reports := startSidecar(t, node, Config{Onions: nw, OnlyOnion: true, Static: []*enode.Node{third}, watchFor: 200 * time.Millisecond})
	s := until(t, reports, "the watch", func(s Status) bool { return len(s.Leaks) > 0 })
	if len(s.Leaks) != 1 || !strings.Contains(s.Leaks[0].What, "too short") || s.Private {
		t.Errorf("%+v", s)
	}
	until(t, reports, "the onion", func(s Status) bool { return s.Private && nw.len() > 1 })
	also := newNode(t) // else it may come before this node is told of it
	also.set(func() { also.refuse = errors.New("no such method") })
	startSidecar(t, also, Config{Onions: nw, OnlyOnion: true, Static: []*enode.Node{third}})
	until(t, reports, "the refusal", func(s Status) bool { return strings.Contains(s.Problem, "no such method") })
	other := newNode(t)
	startSidecar(t, other, Config{Onions: nw, OnlyOnion: true, Static: []*enode.Node{third}})
	other.await(t, node.id()) // it comes to the onion
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
	f, err := openForward(t.Context(), tr, dest, func() {})
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
	if _, err := openForward(t.Context(), tr, dest, func() {}); err == nil {
		t.Error("a forward to an onion that is away")
	}
}
