package sidecar

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// TestLostIsTriedSoon: a node that was connected a moment ago is tried again soon, as long as
// it can be expected back, and is no worse a candidate for that.
func TestLostIsTriedSoon(t *testing.T) {
	var cs candidates
	now := time.Now()
	if err := cs.add(nodeAt(t, 1, 1), "a", false); err != nil {
		t.Fatal(err)
	}
	id := nodeAt(t, 1, 1).ID()
	is := map[enode.ID]bool{id: true}
	if cs.lost(nil, now) {
		t.Error("a node is lost that never was connected")
	}
	cs.connected(is, now)
	if cs.lost(is, now) {
		t.Error("a node is lost that is connected")
	}
	if !cs.lost(nil, now) {
		t.Error("a node is not lost that was connected")
	}
	for now = now.Add(retryLost); ; now = now.Add(retryLost) {
		got := cs.take(1, nil, now)
		if len(got) != 1 {
			t.Fatal("it is not tried again")
		}
		if cs.lost(nil, now) {
			t.Error("a node counts as lost while it is tried")
		}
		if got[0].failures != 0 {
			t.Error("it is blamed")
		}
		cs.done(got[0], false, now)
		if !cs.lost(nil, now) {
			break
		}
	}
	if got := cs.take(1, nil, now.Add(retryLost)); len(got) != 0 {
		t.Error("a node that is away for long is tried as one that is not")
	}
	if got := cs.take(1, nil, now.Add(retryMin)); len(got) != 1 || got[0].failures != 1 {
		t.Error("a node that is away for long is not tried as others")
	}
}

// TestClaimsOfLost: of the onions that are said to lead to a node, only the one in use is
// tried soon when the node goes.
func TestClaimsOfLost(t *testing.T) {
	var cs candidates
	now := time.Now()
	for onion := range 2 {
		if err := cs.add(nodeAt(t, 1, onion), "a", false); err != nil {
			t.Fatal(err)
		}
	}
	used := cs.take(1, nil, now)[0]
	cs.connected(map[enode.ID]bool{used.id: true}, now)
	for _, c := range cs.byID {
		if c.recent.IsZero() == (c == used) {
			t.Errorf("used: %v, connected: %v", c == used, c.recent)
		}
	}
}

// calls is a node's admin interface that notes what it is told, and what the connection over
// the forward is then.
type calls struct {
	admin
	conn net.Conn // the node's
	told []string
	open bool // when RemovePeer was called, conn was
}

func (n *calls) AddPeer(context.Context, string) error {
	n.told = append(n.told, "add")
	return nil
}

func (n *calls) RemovePeer(context.Context, string) error {
	n.told = append(n.told, "remove")
	if n.conn != nil {
		n.open = isOpen(n.conn)
		n.conn.Close()
	}
	return nil
}

func (n *calls) Close() {}

// isOpen reports whether the other end of a connection, which sends nothing, has not closed it.
func isOpen(c net.Conn) bool {
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		return false
	}
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// TestOnionLost: when an onion goes without a goodbye, the node keeps its connection until it was
// told to forget the port. As soon as the onion is there again, the node gets a new port.
func TestOnionLost(t *testing.T) {
	nw := &fakeNet{}
	ln, err := nw.ListenOnion(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	tr, err := devp2p.New(devp2p.Config{Onions: nw})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	dest := nodeOf(t, ln.Onion())
	node := &calls{}
	s := &Sidecar{cfg: Config{Log: slog.New(slog.DiscardHandler), MaxPeers: 1}, poked: make(chan struct{}, 1)}
	st := &state{admin: node, forwards: map[enode.ID]*opened{}, opened: make(chan *opened), session: &session{transport: tr}}
	if err := s.known.add(dest, "test", false); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, o := range st.forwards {
			s.closeForward(st, o, true)
		}
	}()
	s.tend(t.Context(), st, view{})
	s.take(t.Context(), st, <-st.opened)
	o := st.forwards[dest.ID()]
	if o == nil {
		t.Fatal("there is no forward")
	}
	if node.conn, err = net.Dial("tcp", o.ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer node.conn.Close()
	onion, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s.tend(t.Context(), st, view{peers: []*peerInfo{{ID: dest.ID().String()}}})
	node.told = nil
	onion.Close()
	<-s.poked
	s.tend(t.Context(), st, view{})
	if !node.open {
		t.Error("the node's connection ended before the node was told")
	}
	s.take(t.Context(), st, <-st.opened)
	if again := st.forwards[dest.ID()]; again == nil || again == o {
		t.Error("the node has no new port")
	}
	if len(node.told) == 0 || node.told[0] != "remove" || node.told[len(node.told)-1] != "add" {
		t.Errorf("the node was told: %v", node.told)
	}
}

// TestGoodbye: a node that ends a connection itself keeps its port.
func TestGoodbye(t *testing.T) {
	node, c := net.Pipe()
	onion, far := net.Pipe()
	f := &forward{onLost: func() { t.Error("the onion counts as lost") }}
	var cancel context.CancelFunc
	f.ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.splice(c, onion)
	}()
	go far.Close() // at the same time as the node
	node.Close()
	<-done
	if f.lost.Load() {
		t.Error("the onion counts as lost")
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF && err != io.ErrClosedPipe {
		t.Errorf("the onion's end: %v", err)
	}
}
