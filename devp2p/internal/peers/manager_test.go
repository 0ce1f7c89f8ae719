package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/onionsim"
	"github.com/chivenet/chive/program/programtest"
)

const patience = time.Minute

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestConnects: nodes find the way, keep it, and come back after the peer was away.
func TestConnects(t *testing.T) {
	programtest.NoLeaks(t)
	ctx := limited(t)
	nw := onionsim.New()
	dir := t.TempDir()
	key := nodetest.Key(t)
	a := run(t, nw.Node(), Config{Dir: dir, Key: key})
	self := selfWithOnion(t, ctx, a)
	if len(self.IP()) != 0 || self.UDP() != 0 {
		t.Errorf("an address in the record: %v", self.IP())
	}
	b := run(t, nw.Node(), Config{Static: []*enode.Node{self}, BackoffMin: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
	a.talk.wait(t, ctx, 1)
	b.talk.wait(t, ctx, 1)
	await(t, ctx, "the record to be passed on", func() bool { return len(b.Known(5)) == 1 })
	if s := b.Status(); len(s) != 1 || s[0].State != Connected || s[0].Why != "policy only-onion" || !s[0].Static || s[0].Name != "chive-eth" {
		t.Errorf("%+v", s)
	}

	a.stop()
	await(t, ctx, "the loss to be seen", func() bool { return b.Status()[0].State != Connected })
	if s := b.Status()[0]; s.Why == "" {
		t.Errorf("%+v", s)
	}
	again := run(t, nw.Node(), Config{Dir: dir, Key: key})
	if got := selfWithOnion(t, ctx, again); got.ID() != self.ID() {
		t.Error("another node")
	}
	again.talk.wait(t, ctx, 1)
	await(t, ctx, "the peer in the status", func() bool { return len(again.Status()) > 0 })
}

// TestKept: what was connected is known after the next start, with its score.
func TestKept(t *testing.T) {
	ctx := limited(t)
	nw := onionsim.New()
	a := run(t, nw.Node(), Config{})
	self := selfWithOnion(t, ctx, a)
	dir := t.TempDir()
	b := run(t, nw.Node(), Config{Dir: dir, NoOnion: true})
	if err := b.Add(self, "list"); err != nil {
		t.Fatal(err)
	}
	b.talk.wait(t, ctx, 1)
	for range 7 {
		b.Score(self.ID(), Useful)
	}
	b.stop()
	again := run(t, nw.Node(), Config{Dir: dir, NoOnion: true})
	again.talk.wait(t, ctx, 1)
	s := again.Status()
	if len(s) != 1 || s[0].Source != "list" || s[0].Score < 6.9 || s[0].Score > 7 {
		t.Errorf("%+v", s)
	}
}

// TestScore: a peer that breaks the protocol is sent away with the table's reason, and
// may not come back. Others of its circuit may.
func TestScore(t *testing.T) {
	ctx := limited(t)
	nw := onionsim.New()
	a := run(t, nw.Node(), Config{})
	self := selfWithOnion(t, ctx, a)
	b := run(t, nw.Node(), Config{NoOnion: true, BackoffMin: 10 * time.Millisecond, BackoffMax: 10 * time.Millisecond})
	if err := b.Add(self, "test"); err != nil {
		t.Fatal(err)
	}
	a.talk.wait(t, ctx, 1)
	var id enode.ID
	await(t, ctx, "the peer", func() bool {
		for _, s := range a.Status() {
			id = s.ID
		}
		return id != enode.ID{}
	})
	for range 4 {
		a.Score(id, Unasked)
	}
	if s := a.Status(); len(s) != 1 || s[0].State != Connected {
		t.Fatalf("too early: %+v", s)
	}
	a.Score(id, Unasked)
	await(t, ctx, "the peer to be sent away", func() bool {
		s := b.Status()
		return len(s) == 1 && s[0].Problem == p2p.DiscSubprotocolError.Error()
	})
	// It is sent away again at each attempt.
	await(t, ctx, "the next dials to fail", func() bool { return b.Status()[0].Failures >= 3 })
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.live) != 0 || a.banned.has(id, time.Now()).IsZero() || len(a.shut.until) != 0 {
		t.Errorf("%d live, banned %v, shut %v", len(a.live), a.banned.until, a.shut.until)
	}
}

// TestFaultsOfCircuit: one malformed message, or two long after each other, shut out its
// sender, and nobody else of the circuit; the third in some minutes shuts the circuit for a
// time.
func TestFaultsOfCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := idle(t, Config{PerCircuit: 100, MaxPending: 100})
		m.ended = true // nothing is connected
		serial := byte(0)
		fault := func() (honest bool) {
			serial++
			id := enode.ID{serial}
			m.live[id] = &conn{state: connected, inbound: true, id: id, group: "circuit a"}
			m.Score(id, Malformed)
			if m.banned.has(id, time.Now()).IsZero() {
				t.Error("the sender is not banned")
			}
			m.ended = false
			defer func() { m.ended = true }()
			if m.admit(newCircuit("b"), true) == nil {
				t.Error("another circuit is shut")
			}
			return m.admit(newCircuit("a"), true) != nil
		}
		for i, want := range []bool{true, true, false} {
			if fault() != want {
				t.Errorf("fault %d: the circuit is open: %v", i+1, !want)
			}
		}
		time.Sleep(groupBan)
		m.ended = false
		if m.admit(newCircuit("a"), true) == nil {
			t.Error("the circuit is shut for longer")
		}
		m.ended = true
		time.Sleep(time.Hour) // they fade
		for range 20 {
			if !fault() {
				t.Error("a fault each ten minutes shuts the circuit")
			}
			time.Sleep(groupHalf)
		}
		for i := range maxGroups + 10 {
			m.faults.add(fmt.Sprint(i), time.Now())
		}
		if len(m.faults) > maxGroups {
			t.Errorf("%d groups are counted", len(m.faults))
		}
	})
}

// TestFailsWithoutFallback: in only-onion, a node whose onion is away is not reached,
// though its record has an address.
func TestFailsWithoutFallback(t *testing.T) {
	ctx := limited(t)
	nw := onionsim.New()
	l, err := nw.Node().ListenOnion(ctx, "", 30303)
	if err != nil {
		t.Fatal(err)
	}
	nw.SetAway(l.Onion(), true)
	n := nodetest.Peer(t, l.Onion(), enr.IPv4(net.IPv4(127, 0, 0, 1)))
	m := run(t, nw.Node(), Config{Static: []*enode.Node{n}, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond}) // noClear
	await(t, ctx, "failures", func() bool { return m.Status()[0].Failures > 3 })
	if s := m.Status()[0]; !s.Onion || !strings.Contains(s.Problem, "away") {
		t.Errorf("%+v", s)
	}
}

// TestRefuses: what cannot be a peer, or a configuration, is refused with a reason.
func TestRefuses(t *testing.T) {
	nw := onionsim.New()
	tr, err := devp2p.New(devp2p.Config{Onions: nw.Node()})
	if err != nil {
		t.Fatal(err)
	}
	clear := nodetest.Peer(t, enr.IPv4(net.IPv4(192, 0, 2, 1)))
	key := nodetest.Key(t)
	for name, cfg := range map[string]Config{
		"no key":       {Transport: tr},
		"no transport": {Key: key},
		"static":       {Key: key, Transport: tr, Static: []*enode.Node{clear}},
		"listener":     {Key: key, Transport: tr, ListenAddr: "0.0.0.0:30303"},
		"a name":       {Key: key, Transport: tr, ListenAddr: "localhost:30303"},
		"two ports":    {Key: key, Transport: tr, ListenAddr: "127.0.0.1:1", Port: 2},
		"negative":     {Key: key, Transport: tr, MaxPeers: -1},
		"port":         {Key: key, Transport: tr, Port: 70000},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	m, err := New(Config{Key: key, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(clear, "test"); !errors.Is(err, devp2p.ErrNoOnion) {
		t.Errorf("a node without an onion: %v", err)
	}
	if m.Self() != nil {
		t.Error("a record before Run")
	}
	if len(m.Known(5)) != 0 {
		t.Error("unreached nodes are passed on")
	}
}

// TestRunErrors: Run leaves nothing behind when a listener cannot be opened, and ends
// when the onion ends.
func TestRunErrors(t *testing.T) {
	programtest.NoLeaks(t)
	ctx := limited(t)
	nw := onionsim.New()
	onions := nw.Node()
	tr, err := devp2p.New(devp2p.Config{Onions: onions})
	if err != nil {
		t.Fatal(err)
	}
	held, err := tr.Listen(ctx, "x/onion", 30303)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Key: nodetest.Key(t), Transport: tr, Dir: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err == nil || !strings.Contains(err.Error(), "hosted already") {
		t.Error(err)
	}
	held.Close()
	m, err = New(Config{Key: nodetest.Key(t), Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	await(t, ctx, "the onion", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.onion != nil })
	onions.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestStopAnyTime: Run ends cleanly when it is stopped at any step.
func TestStopAnyTime(t *testing.T) {
	programtest.NoLeaks(t)
	nw := onionsim.New()
	nw.SetDelay(3 * time.Millisecond)
	a := run(t, nw.Node(), Config{})
	self := selfWithOnion(t, limited(t), a)
	for i := range 30 {
		b := run(t, nw.Node(), Config{Static: []*enode.Node{self}})
		<-time.After(time.Duration(i) * 300 * time.Microsecond)
		b.stop()
	}
}
