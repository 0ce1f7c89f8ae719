package channel

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/ident"
)

// at is a connection that came from an address.
type at struct {
	net.Conn
	addr netip.Addr
}

func (c at) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.addr, 9)) }

// accepted returns the responder's manager and channel of a link. The initiator is a relay
// with an address of its own, or a client; the link comes from an address.
func accepted(t *testing.T, cfg *Config, relay bool, own, from netip.Addr) (*Manager, *Channel) {
	k := keys(t)
	now := func() time.Time { return k.Expires.Add(-time.Hour) }
	x, y := net.Pipe()
	near := &LinkConfig{Now: now}
	if relay {
		near.Identity, near.Addrs = k, []netip.Addr{own}
	}
	l, r, lerr, rerr := shake(t, x, at{y, from}, ident.RelayID{RSA: k.ID.RSA}, near, &LinkConfig{Now: now, Identity: k})
	if lerr != nil || rerr != nil {
		t.Fatal(lerr, rerr)
	}
	cfg.Now, cfg.Log = time.Now, slog.New(slog.DiscardHandler)
	far := Start(l, &Config{Now: time.Now, Log: cfg.Log})
	m := NewManager(cfg, &LinkConfig{}, nil)
	t.Cleanup(func() { m.Close(); far.Close(nil); <-far.Done() })
	ch, err := m.Adopt(r)
	if err != nil {
		t.Fatal(err)
	}
	return m, ch
}

// TestRest: how long a link without circuits stays open, as with C tor: 45 to 75 minutes
// between relays of the consensus whose link is canonical, or as the consensus says; 3 to 4.5
// minutes for all others, and half of that for a client that must save traffic.
func TestRest(t *testing.T) {
	keys(t)
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	yes, no := func(*Link) bool { return true }, func(*Link) bool { return false }
	relays := DefaultPadding(PadRelay)
	brief := relays
	brief.RelayIdle = 2 * time.Minute
	for name, c := range map[string]struct {
		relay       bool
		from        netip.Addr
		padding     *PaddingConfig
		may         func(*Link) bool
		least, most time.Duration
	}{
		"between relays":                  {true, one, &relays, yes, 45 * time.Minute, 75 * time.Minute},
		"as the consensus says":           {true, one, &brief, yes, 90 * time.Second, 150 * time.Second},
		"not canonical":                   {true, two, &relays, yes, 3 * time.Minute, 270 * time.Second},
		"not in the consensus":            {true, one, &relays, no, 3 * time.Minute, 270 * time.Second},
		"nobody knows what the consensus": {true, one, &relays, nil, 3 * time.Minute, 270 * time.Second},
		"a client":                        {false, one, &relays, yes, 3 * time.Minute, 270 * time.Second},
		"at a bridge":                     {true, one, new(DefaultPadding(PadFull)), yes, 3 * time.Minute, 270 * time.Second},
		"with reduced padding":            {true, one, new(DefaultPadding(PadReduced)), yes, 90 * time.Second, 135 * time.Second},
		"without padding":                 {true, one, nil, yes, 3 * time.Minute, 270 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := &Config{MayRest: c.may}
				if c.padding != nil {
					cfg.Padding = NewPadding(*c.padding)
				}
				m, ch := accepted(t, cfg, c.relay, one, c.from)
				time.Sleep(c.least - time.Second)
				m.Reap()
				if err := ch.Err(); err != nil {
					t.Fatalf("after %v: %v", c.least-time.Second, err)
				}
				time.Sleep(c.most - c.least + 2*time.Second)
				m.Reap()
				if ch.Err() == nil {
					t.Fatalf("still open after %v", c.most+time.Second)
				}
			})
		})
	}
}

// TestRestingLinksGoFirst: when memory is short, a link that rests is closed, and not one with
// a circuit that holds more.
func TestRestingLinksGoFirst(t *testing.T) {
	keys(t)
	synctest.Test(t, func(t *testing.T) {
		memory := account.New(linkCost*5/2 + circCost)
		cfg := func() *Config { return &Config{Memory: memory} }
		addr := netip.MustParseAddr("192.0.2.1")
		_, idle := accepted(t, cfg(), true, addr, addr)
		_, busy := accepted(t, cfg(), true, addr, netip.MustParseAddr("192.0.2.2"))
		c, err := busy.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan time.Time)
		go memory.Run(t.Context(), second, nil)
		for range 31 {
			second <- time.Now()
		}
		c.Account().Reserve(linkCost)
		synctest.Wait()
		if idle.Err() == nil || busy.Err() != nil {
			t.Errorf("the resting link: %v; the busy one: %v", idle.Err(), busy.Err())
		}
		if n, _ := busy.Circuits(); n != 1 {
			t.Errorf("%d circuits are left", n)
		}
		c.Destroy(cell.DestroyNone)
	})
}

// TestAvailableFrom: how long a client keeps circuits, by mode.
func TestAvailableFrom(t *testing.T) {
	for said, want := range map[int32]time.Duration{0: 30 * time.Minute, 600: 10 * time.Minute, 5: time.Minute} {
		param := func(name string, def, lo, hi int32) int32 {
			if name != "nf_conntimeout_clients" || said == 0 {
				return def
			}
			return min(max(said, lo), hi)
		}
		if full, reduced := AvailableFrom(param, PadFull), AvailableFrom(param, PadReduced); full != want || reduced != want/2 {
			t.Errorf("%d seconds: %v, %v", said, full, reduced)
		}
	}
}
