package peers

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/onionsim"
	"github.com/chivenet/chive/program/programtest"
)

// idle returns a manager that does not run, for tests of its rules.
func idle(t testing.TB, cfg Config) *Manager {
	t.Helper()
	tr, err := devp2p.New(devp2p.Config{Onions: onionsim.New().Node()})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Key, cfg.Transport = nodetest.Key(t), tr
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// circuit is a connection over a circuit, which nobody answers.
type circuit struct {
	net.Conn
	name string
}

func (c circuit) Circuit() string { return c.name }

func newCircuit(name string) circuit {
	a, _ := net.Pipe()
	return circuit{a, name}
}

// TestPending: the handshakes under way are bounded, by circuit and in all; a crowded
// circuit makes room for others, and so do slow ones.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := idle(t, Config{MaxPending: 4, PerCircuit: 3})
		var first []*conn
		for range 3 {
			first = append(first, m.admit(newCircuit("a"), true))
		}
		if m.admit(newCircuit("a"), true) != nil {
			t.Error("a fourth connection over one circuit")
		}
		if m.admit(newCircuit("b"), true) == nil || m.admit(newCircuit("c"), true) == nil {
			t.Fatal("a crowded circuit made no room")
		}
		if m.pending != 4 || m.groups["circuit a"] != 2 {
			t.Errorf("%d pending, %v", m.pending, m.groups)
		}
		closed := 0
		for _, c := range first {
			if c.state == gone {
				closed++
			}
		}
		if closed != 1 || first[0] == nil {
			t.Errorf("%d closed", closed)
		}
		// d makes room of circuit a, too. Then each circuit has one.
		if m.admit(newCircuit("d"), true) == nil || m.admit(newCircuit("e"), true) != nil {
			t.Error("circuits with one connection each")
		}
		time.Sleep(rlpxTimeout)
		if m.admit(newCircuit("e"), true) == nil {
			t.Error("no room after the handshake's usual time")
		}
		// Those of a daemon, which tells no circuit, make room for each other.
		m = idle(t, Config{MaxPending: 4, PerCircuit: 1})
		for i := range 40 {
			a, _ := net.Pipe()
			if m.admit(a, true) == nil {
				t.Errorf("connection %d without a circuit", i)
			}
		}
		if m.pending != 4 || len(m.conns) != 4 {
			t.Errorf("%d pending, %d connections", m.pending, len(m.conns))
		}
	})
}

// TestEvict: onion peers, good ones and old ones stay; the newest of the most crowded
// circuit goes.
func TestEvict(t *testing.T) {
	m := idle(t, Config{})
	now := time.Now()
	add := func(i int, group string, onion, inbound bool, points float64) *conn {
		c := m.newConn(nil, inbound, group, devp2p.Route{Onion: onion})
		c.state, c.since = connected, now.Add(time.Duration(i)*time.Second)
		c.score = score{value: points, at: now}
		c.id = enode.ID{byte(i), byte(i >> 8)}
		m.live[c.id] = c
		return c
	}
	good := add(100, "x", false, true, 50)
	onion := add(99, "circuit", true, true, 0)
	var crowd []*conn
	for i := range 4 {
		crowd = append(crowd, add(90+i, "crowd", false, true, 0))
	}
	for i := range 6 {
		add(i, fmt.Sprint(i), false, true, 0)
	}
	dialled := add(101, "", false, false, 0)
	newcomer := add(102, "crowd", false, true, 0)
	for range 4 {
		v := m.evict(newcomer)
		if v == nil {
			break
		}
		if v == good || v == onion || v == dialled || v == newcomer {
			t.Fatalf("%+v goes", v)
		}
		if len(crowd) > 2 && v != crowd[len(crowd)-1] {
			t.Fatalf("%v goes, not the newest of the crowd", v.addr)
		}
		crowd = crowd[:len(crowd)-1]
		delete(m.live, v.id)
		m.drop(v)
	}
	// Nobody is left but those that are safe.
	m = idle(t, Config{})
	add(1, "", true, false, 0)
	if v := m.evict(nil); v != nil {
		t.Errorf("%+v goes, which was dialled", v)
	}
}

// TestFull: a full node takes a new peer in, for another one's place.
func TestFull(t *testing.T) {
	ctx := limited(t)
	nw := onionsim.New()
	a := run(t, nw.Node(), Config{MaxPeers: 4, MaxOutbound: 1})
	self := selfWithOnion(t, ctx, a)
	for range 7 {
		b := run(t, nw.Node(), Config{NoOnion: true, BackoffMin: time.Hour, BackoffMax: time.Hour})
		if err := b.Add(self, "test"); err != nil {
			t.Fatal(err)
		}
		b.talk.wait(t, ctx, 1)
	}
	await(t, ctx, "four peers", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.live) == 4 && a.pending == 0 })
	if a.talk.heard == nil || len(a.srv.Peers()) > 4+slack {
		t.Errorf("%d peers", len(a.srv.Peers()))
	}
}

// TestSybils: a thousand node keys behind one circuit hold no more than the limit, and an
// honest node comes in meanwhile.
func TestSybils(t *testing.T) {
	programtest.NoLeaks(t)
	ctx := limited(t)
	nw := onionsim.New()
	a := run(t, nw.Node(), Config{MaxPeers: 20, PerCircuit: 3})
	self := selfWithOnion(t, ctx, a)
	host, port, err := devp2p.OnionOf(self)
	if err != nil {
		t.Fatal(err)
	}
	attacker := nw.Node()
	addr := net.JoinHostPort(host, fmt.Sprint(port))
	p := newTalk()
	most := 0
	for range 1000 {
		c, err := attacker.DialOnion(ctx, addr, "one")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a.mu.Lock()
		most = max(most, a.groups["circuit 2/one"], len(a.conns))
		a.mu.Unlock()
	}
	if most > 3 || most == 0 {
		t.Errorf("%d connections over one circuit", most)
	}
	b := run(t, nw.Node(), Config{NoOnion: true})
	if err := b.Add(self, "test"); err != nil {
		t.Fatal(err)
	}
	b.talk.wait(t, ctx, 1)

	// With real handshakes, too.
	for range 5 {
		srv := &p2p.Server{Config: p2p.Config{PrivateKey: nodetest.Key(t), MaxPeers: 1, NoDial: true, NoDiscovery: true, Protocols: []p2p.Protocol{p.protocol()}}}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		defer srv.Stop()
		c, err := attacker.DialOnion(ctx, addr, "two")
		if err != nil {
			t.Fatal(err)
		}
		srv.SetupConn(c, flagDialed, self) // the last ones fail
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.groups["circuit 2/two"]; n != 3 {
		t.Errorf("%d peers over one circuit", n)
	}
}

// TestMalformedRLPx: bytes that are no handshake end their connection, and nothing else.
func TestMalformedRLPx(t *testing.T) {
	ctx := limited(t)
	nw := onionsim.New()
	a := run(t, nw.Node(), Config{})
	self := selfWithOnion(t, ctx, a)
	host, port, _ := devp2p.OnionOf(self)
	attacker := nw.Node()
	for _, b := range [][]byte{{}, {0, 1}, {0xff, 0xff}, make([]byte, 400), []byte("GET / HTTP/1.1\r\n\r\n")} {
		c, err := attacker.DialOnion(ctx, net.JoinHostPort(host, fmt.Sprint(port)), fmt.Sprintf("%x", b[:min(len(b), 2)]))
		if err != nil {
			t.Fatal(err)
		}
		go c.Write(append(b, make([]byte, 65538)...)) // more than any handshake's size
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Log(err)
		}
		c.Close()
	}
	b := run(t, nw.Node(), Config{NoOnion: true, Static: []*enode.Node{self}})
	b.talk.wait(t, ctx, 1)
	await(t, ctx, "all others to be forgotten", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.conns) == 1 && a.pending == 0 })
}

// shortListener has no file for a connection, and then ends.
type shortListener struct{ tried bool }

func (l *shortListener) Accept() (net.Conn, error) {
	if l.tried {
		return nil, net.ErrClosed
	}
	l.tried = true
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: errors.New("no file is left")}
}

func (l *shortListener) Close() error { return nil }

func (l *shortListener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 30303}
}

// TestAcceptLog: the log gets the reason, and not the address.
func TestAcceptLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := idle(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		m.accept(t.Context(), nil, &shortListener{}, func(error) {})
		if !strings.Contains(log.String(), "no file is left") || strings.Contains(log.String(), "203.0.113.7") {
			t.Error(log.String())
		}
	})
}

// TestStretch: only the handshake's deadline is stretched.
func TestStretch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := idle(t, Config{HandshakeTimeout: 30 * time.Second})
		a, b := net.Pipe()
		defer b.Close()
		c := m.newConn(a, true, "", devp2p.Route{})
		for _, step := range []struct {
			set  func(time.Time) error
			want time.Duration
		}{{c.SetDeadline, 30 * time.Second}, {c.SetReadDeadline, 5 * time.Second}} {
			began := time.Now()
			step.set(began.Add(rlpxTimeout))
			if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(began) != step.want {
				t.Errorf("%v after %v, not %v", err, time.Since(began), step.want)
			}
		}
	})
}
