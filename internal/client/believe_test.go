package client

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// liar is an exit that answers every stream and lookup with what it is told to.
type liar struct {
	asked *atomic.Int64
	cmd   cell.RelayCommand
	body  []byte
	mu    *sync.Mutex        // guards cmd, body and heard
	heard []byte             // what the last stream was opened with
	open  func(netdir.Relay) // has circuits from now on let out what a relay does
	leave func(n int)        // leaves n exits of all
}

func (l *liar) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	l.asked.Add(1)
	if err := h.AcceptStream(m.Stream, gone{h, m.Stream}); err != nil { // for the client's END
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = bytes.Clone(m.Data)
	return h.Send(l.cmd, m.Stream, l.body)
}

// gone is a stream of a liar's, which ends when the client says so.
type gone struct {
	h  *circuit.Hop
	id uint16
}

func (g gone) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	if m.Cmd == cell.RelayEnd {
		g.h.RemoveStream(g.id, true)
	}
	return nil
}

func (gone) Flush() {}

func (gone) HandleCircuitClose(error) {}

// exits builds circuits of one hop to relays of the test's.
type exits struct {
	c      *Client
	m      *channel.Manager
	relays []*simnet.Relay
	open   netdir.Relay // an exit of a directory, for its policy
}

func (e *exits) Build(ctx context.Context, spec pool.Spec) (pool.PooledCircuit, error) {
	for _, r := range e.relays {
		if slices.Contains(spec.ExcludeExit, r.Target.RSA) {
			continue
		}
		ch, err := e.m.Get(ctx, r.Target)
		if err != nil {
			return nil, err
		}
		circ, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, r.Target, circuit.HopOptions{})
		if err != nil {
			return nil, err
		}
		return &OpenCircuit{Circuit: circ, client: e.c, life: lifeOf(e.c), id: e.c.ids.Add(1), path: &path.Path{Hops: []path.Hop{{Relay: e.open, Target: r.Target}}}}, nil
	}
	return nil, errors.New("no other exit")
}

// withLiars makes a client whose exits all say the same, and returns how to
// tell them what, and how often they were asked since.
func withLiars(t *testing.T, cfg Config) (*Client, *liar) {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	e := &exits{m: channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)}
	for r := range d.All() {
		if path.Allows(r, path.Dest{Port: 443}) {
			e.open = r
		}
	}
	l := &liar{asked: new(atomic.Int64), mu: new(sync.Mutex)}
	l.open = func(r netdir.Relay) { e.open = r }
	l.leave = func(n int) { e.relays = e.relays[:n] }
	for range streamTries {
		e.relays = append(e.relays, simnet.New(t, simnet.Options{Streams: l}))
	}
	t.Cleanup(e.m.Close)
	cfg.Dial = refuse
	if e.c, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	p := pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, e)
	e.c.pool.Store(p)
	close(e.c.poolReady)
	t.Cleanup(func() {
		if err := e.c.Close(); err != nil {
			t.Error(err)
		}
	})
	return e.c, l
}

func (l *liar) say(cmd cell.RelayCommand, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cmd, l.body = cmd, body
	l.asked.Store(0)
}

// internal are addresses that no exit's answer may lead a program to.
var internal = []string{"127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
	"::1", "fe80::1", "fc00::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:192.168.1.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "::"}

func resolved(addrs ...string) []byte {
	var out cell.Resolved
	for _, s := range addrs {
		a := netip.MustParseAddr(s)
		typ := cell.AnswerIPv6
		if a.Is4() {
			typ = cell.AnswerIPv4
		}
		out = append(out, cell.Answer{Type: typ, Addr: a, TTL: 60})
	}
	b, err := out.Append(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// TestInternalAnswers: an exit that says that a name has a private address is
// not believed, whichever message says it.
func TestInternalAnswers(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, s := range internal {
		a := netip.MustParseAddr(s)
		l.say(cell.RelayResolved, resolved(s))
		if got, err := c.Resolve(ctx, Request{Host: "example.com"}); !errors.Is(err, errInternalAnswer) || !fault.Is(err, fault.Refused) {
			t.Errorf("RESOLVED %s: %v %v", s, got, err)
		}
		if n := l.asked.Load(); n != streamTries {
			t.Errorf("RESOLVED %s: %d exits were asked", s, n)
		}
		l.say(cell.RelayResolved, resolved(s, "192.0.2.1"))
		if got, err := c.Resolve(ctx, Request{Host: "example.com"}); err != nil || len(got) != 1 || got[0].Addr.String() != "192.0.2.1" {
			t.Errorf("RESOLVED %s beside a public address: %v %v", s, got, err)
		}
		connected := cell.Connected{Addr: a, TTL: 60}
		l.say(cell.RelayConnected, connected.Append(nil))
		if conn, err := c.Dial(ctx, Request{Host: "example.com", Port: 443}); !errors.Is(err, errInternalAnswer) || !fault.Is(err, fault.Refused) {
			t.Errorf("CONNECTED %s: %v", s, err)
			if conn != nil {
				conn.Close()
			}
		}
		end := cell.End{Reason: cell.EndExitPolicy, Addr: a, TTL: 60}
		l.say(cell.RelayEnd, end.Append(nil))
		if _, err := c.Dial(ctx, Request{Host: "example.com", Port: 443}); !errors.Is(err, errInternalAnswer) || !fault.Is(err, fault.Refused) {
			t.Errorf("END %s: %v", s, err)
		}
		if n := l.asked.Load(); n != 1 {
			t.Errorf("END %s: %d exits were asked, of which none can do better", s, n)
		}
	}
	// What is public, or not told at all, passes.
	for _, conn := range []cell.Connected{{}, {Addr: netip.MustParseAddr("192.0.2.1"), TTL: 60}, {Addr: netip.MustParseAddr("2001:db8::1"), TTL: 60}} {
		l.say(cell.RelayConnected, conn.Append(nil))
		s, err := c.Dial(ctx, Request{Host: "example.com", Port: 443})
		if err != nil {
			t.Fatal(conn, err)
		}
		s.Close()
	}
}

// TestInternalSwitches: networks on private addresses believe their exits, and
// are asked for such addresses, unless they are told otherwise.
func TestInternalSwitches(t *testing.T) {
	private := &netdir.Network{Name: "lab", Testing: netdir.Testing{AllowPrivateAddresses: true}}
	for _, x := range []struct {
		name          string
		cfg           Config
		asks, believe bool
	}{
		{"the public network", Config{Network: netdir.Public()}, false, false},
		{"the public network, off", Config{Network: netdir.Public(), RejectInternal: Off, RejectInternalAnswers: Off}, true, true},
		{"a private network", Config{Network: private}, true, true},
		{"a private network, on", Config{Network: private, RejectInternal: On, RejectInternalAnswers: On}, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &Client{cfg: x.cfg}
			for _, host := range []string{"127.0.0.1", "100.64.0.1", "fec0::1", "64:ff9b::127.0.0.1", "localhost", "a.localhost", "printer.local", "1.0.0.10.in-addr.arpa", cell.ReverseName(netip.MustParseAddr("fc00::1"))} {
				if _, err := c.dest(Request{Host: host, Port: 80}); (err == nil) != x.asks {
					t.Errorf("%s: %v", host, err)
				}
			}
			if err := c.believeAddr(netip.MustParseAddr("127.0.0.1")); (err == nil) != x.believe {
				t.Error(err)
			}
			for _, nowhere := range []string{"0.0.0.0", "::", "::ffff:0.0.0.0"} {
				if err := c.believeAddr(netip.MustParseAddr(nowhere)); err == nil {
					t.Error(nowhere, "is somewhere")
				}
			}
		})
	}
}
