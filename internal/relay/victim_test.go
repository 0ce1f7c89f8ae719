package relay

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/stream"
)

// logged collects what a relay logs.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// victim is a complete relay, an exit, of a network whose authorities do not run.
type victim struct {
	*Relay
	log    logged
	target *target.Target
	as     *linkspec.Target // the target of a victim in another process; else nil
}

// Target returns what a client needs to reach the victim.
func (v *victim) Target() linkspec.Target {
	if v.as != nil {
		return *v.as
	}
	return v.Relay.Target()
}

// startVictim starts a victim; change alters its configuration, and tune the
// relay before it runs.
func startVictim(t *testing.T, change func(*Config), tune ...func(*Relay)) *victim {
	t.Helper()
	v := &victim{}
	var err error
	if v.target, err = target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.target.Close() })
	cfg := bridgeConfig(t)
	cfg.Bridge, cfg.NoPublish, cfg.Nickname = false, true, "victim"
	cfg.Exit = &exit.Config{Policy: exit.AcceptAll(), Private: true, Nameservers: []netip.AddrPort{v.target.Nameserver()}}
	cfg.Log = slog.New(slog.NewTextHandler(&v.log, nil))
	if change != nil {
		change(&cfg)
	}
	if v.Relay, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	v.origin = func(*channel.Link) cell.EndReason { return 0 } // users may use circuits of one hop
	for _, f := range tune {
		f(v.Relay)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := v.gate.open.Load(); n != 0 {
			t.Errorf("%d connections are still counted", n)
		}
	})
	return v
}

// user is a client of the victim, with its own link.
type user struct {
	t  *testing.T
	v  *victim
	ch *channel.Channel
}

var userEnv = &circuit.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}

// connect makes a client whose connection goes through wrap unless that is nil.
func (v *victim) connect(t *testing.T, wrap func(net.Conn) net.Conn) *user {
	t.Helper()
	m := channel.NewManager(&channel.Config{Log: userEnv.Log, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", a.String())
		if err == nil && wrap != nil {
			c = wrap(c)
		}
		return c, err
	})
	t.Cleanup(m.Close)
	ch, err := m.Get(within(t), v.Target())
	if err != nil {
		t.Fatal(err)
	}
	return &user{t, v, ch}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (u *user) circuit() *circuit.Circuit {
	u.t.Helper()
	c, err := circuit.Create(within(u.t), userEnv, u.ch, u.v.Target(), circuit.HopOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	return c
}

func (u *user) stream(c *circuit.Circuit, s target.Service) *stream.Stream {
	u.t.Helper()
	a := netip.MustParseAddrPort(u.v.target.Addr(s))
	out, err := stream.Dial(within(u.t), c.Last(), a.Addr().String(), a.Port())
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

// use acts like a client: it opens a circuit and a stream, and sends and receives
// bytes.
func (u *user) use() {
	u.t.Helper()
	c := u.circuit()
	defer c.Close(cell.DestroyNone, context.Canceled)
	s := u.stream(c, target.Echo)
	s.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := s.Write([]byte("is anybody there")); err != nil {
		u.t.Fatal(err)
	}
	b := make([]byte, 16)
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "is anybody there" {
		u.t.Fatalf("%q %v", b, err)
	}
}
