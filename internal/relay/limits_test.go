package relay

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/protover"
)

func TestDoSConnections(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := newDoS(func() time.Time { return now }, true, false)
	d.params = dosParams{conns: true, connMax: 10, connPace: pace.Limit{Rate: 1, Burst: 20}, connBan: time.Hour}
	a, same, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.1")
	for i := range 10 {
		if !d.connect([2]netip.Addr{a, same}[i%2]) {
			t.Fatal("too early", i)
		}
	}
	if d.connect(a) || !d.connect(other) {
		t.Error("the bound is of one /64, and of no other address")
	}
	d.disconnect(a)
	if !d.connect(same) {
		t.Error("a closed connection can be evicted")
	}
	for range 10 {
		d.disconnect(a)
	}
	refused := false
	for range 30 {
		if d.connect(a) {
			d.disconnect(a)
		} else {
			refused = true
		}
	}
	if !refused || d.connect(a) {
		t.Error("an address that connects too often is not banned")
	}
	if now = now.Add(2 * time.Hour); !d.connect(a) {
		t.Error("the ban does not end")
	}
	if d.crowded(other) {
		t.Error("one connection is a crowd")
	}
	d.addrs = map[netip.Addr]bool{other: true}
	for range 100 {
		if !d.connect(other) {
			t.Fatal("a listed relay's address is limited before it can prove its identity")
		}
	}
	if !d.crowded(other) {
		t.Error("a hundred connections are no crowd")
	}
}

// TestDoSWithoutConsensus: a relay defends itself before it knows a consensus,
// but not in testing networks.
func TestDoSWithoutConsensus(t *testing.T) {
	now := func() time.Time { return time.Unix(1e9, 0) }
	a := netip.MustParseAddr("192.0.2.1")
	for _, testing := range []bool{false, true} {
		d := newDoS(now, testing, false)
		refused := 0
		for range 200 {
			if !d.connect(a) {
				refused++
			}
		}
		for range 200 {
			if !d.create(a) {
				refused++
			}
		}
		if limited := refused > 100; limited == testing {
			t.Errorf("testing: %v; %d refused", testing, refused)
		}
	}
}

func TestDoSCircuits(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := newDoS(func() time.Time { return now }, true, false)
	a := netip.MustParseAddr("192.0.2.1")
	for range 1000 {
		if !d.create(a) {
			t.Fatal("it limits although the consensus does not say so")
		}
	}
	d.params = dosParams{circuits: true, circuitConns: 3, circuitPace: pace.Limit{Rate: 3, Burst: 90}, circuitBan: time.Hour}
	for range 3 {
		d.connect(a)
	}
	n := 0
	for d.create(a) {
		n++
	}
	if n != 90 {
		t.Errorf("%d circuits at once", n)
	}
	if now = now.Add(time.Minute); d.create(a) {
		t.Error("no ban")
	}
	if now = now.Add(time.Hour * 3 / 2); !d.create(a) {
		t.Error("the ban does not end")
	}
	for range 3 {
		d.disconnect(a)
	}
	now = now.Add(3 * time.Hour)
	if d.forget(); len(d.peers) != 0 {
		t.Error("nothing is forgotten")
	}
}

func TestGateKeepsDescriptors(t *testing.T) {
	g := newGate(1000)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn := func() *net.TCPConn {
		t.Helper()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*net.TCPConn)
	}
	var half []*net.TCPConn
	for range 125 {
		half = append(half, conn())
		if !g.enterHandshake(half[len(half)-1], netip.AddrFrom4([4]byte{192, 0, 2, byte(len(half))}), false) {
			t.Fatal("too early", len(half))
		}
	}
	late := conn()
	if !g.enterHandshake(late, netip.Addr{}, false) || g.waiting.Len() != 125 || g.cutOff.Load() != 1 {
		t.Errorf("%d handshakes are under way, %d were cut off", g.waiting.Len(), g.cutOff.Load())
	}
	if err := half[0].SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the oldest lives: %v", err)
	}
	if err := half[1].SetDeadline(time.Now()); err != nil {
		t.Errorf("the second oldest: %v", err)
	}
	for _, c := range append(half, late) {
		g.leaveHandshake(c)
		g.leave()
	}
	if g.waiting.Len() != 0 || len(g.place) != 0 || len(g.from) != 0 || g.open.Load() != 0 {
		t.Error("somebody is still waiting")
	}
	n := 0
	for g.enter(false) {
		n++
	}
	if n != 750-750/8 {
		t.Errorf("%d connections of strangers of 1000 descriptors", n)
	}
	for g.enter(true) {
		n++
	}
	if n != 750 {
		t.Errorf("%d connections of 1000 descriptors", n)
	}
	if g.leave(); g.enter(false) || !g.enter(true) || g.enter(true) {
		t.Error("leaving makes room for one")
	}
	if g.enterHandshake(late, netip.Addr{}, true) {
		t.Error("no descriptor is left, and no connection can be closed to free one")
	}
}

// TestHandshakesOfOneAddress: an address that opens handshakes without end only
// replaces its own.
func TestHandshakesOfOneAddress(t *testing.T) {
	g := newGate(1000)
	honest, flood := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	mine := new(net.TCPConn)
	if !g.enterHandshake(mine, honest, false) {
		t.Fatal("no room")
	}
	for range 1000 {
		flood = flood.Next() // of one /64
		if !g.enterHandshake(new(net.TCPConn), flood, false) {
			t.Fatal("no room")
		}
	}
	if g.place[mine] == nil || g.waiting.Len() != g.handshakes {
		t.Errorf("cut off by another address: %v; %d wait", g.place[mine] == nil, g.waiting.Len())
	}
}

// TestDialsAreBounded: the connections that others make this relay open are
// bounded for each port, both to strangers and to relays.
func TestDialsAreBounded(t *testing.T) {
	g := newGate(1000)
	enter := func(known bool, port func(i int) uint16) (n int) {
		for i := range 2 * g.handshakes {
			if g.enterDial(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port(i)), known) == nil {
				n++
			}
		}
		return n
	}
	if n := enter(true, func(int) uint16 { return 1 }); n != maxDialing {
		t.Errorf("%d at once to one port", n)
	}
	if n := enter(false, func(i int) uint16 { return uint16(1000 + i) }); n != g.handshakes {
		t.Errorf("%d to strangers", n)
	}
	if n := enter(true, func(i int) uint16 { return uint16(2000 + i) }); n != g.handshakes-maxDialing {
		t.Errorf("%d to relays", n)
	}
	g.leaveDial(netip.MustParseAddrPort("192.0.2.1:1"), true)
	g.leaveDial(netip.MustParseAddrPort("192.0.2.1:1000"), false)
	if g.dials != g.handshakes-1 || g.strangers.Load() != int64(g.handshakes) || len(g.dialing) != 2*g.handshakes-maxDialing {
		t.Errorf("%d dials, %d ports, %d strangers", g.dials, len(g.dialing), g.strangers.Load())
	}
}

func TestObservedBandwidth(t *testing.T) {
	var b bandwidth
	now := time.Unix(1e9, 0)
	var read, written uint64
	step := func(r, w uint64, seconds int) {
		for range seconds {
			now = now.Add(time.Second)
			read, written = read+r, written+w
			b.sample(now, read, written)
		}
	}
	step(0, 0, 1)
	step(1000, 3000, 30)
	if got := b.Observed(); got != 1000 {
		t.Errorf("%d: the lesser direction counts", got)
	}
	step(5000, 5000, 5)
	if got := b.Observed(); got != 3000 {
		t.Errorf("%d: the best ten seconds of each direction count", got)
	}
	now = now.Add(19 * time.Second) // the machine was delayed by 20 seconds
	step(60000, 60000, 1)
	if got := b.Observed(); got != (5*5000+5*3000)/10 {
		t.Errorf("%d: what comes late is spread over the time that it took", got)
	}
	if b.stats() != nil && len(b.stats()) > 0 {
		t.Error("history of a day that is not over")
	}
	for range 6 {
		now = now.Add(day)
		step(1, 1, 1)
	}
	if got := b.Observed(); got >= 3000 {
		t.Errorf("%d: it is not forgotten after five days", got)
	}
	if s := string(b.stats()); strings.Count(s, ",") != 8 || !strings.Contains(s, "(86400 s)") {
		t.Error(s)
	}
}

func TestOnly4(t *testing.T) {
	all := netdoc.AllPorts
	p := netdoc.ExitPolicy{{Net: netip.MustParsePrefix("fc00::/7"), Ports: all}, {Net: netip.MustParsePrefix("10.0.0.0/8"), Ports: all},
		{Accept: true, Ports: netdoc.PortRange{Lo: 80, Hi: 80}}, {Six: true, Ports: all}}
	got := only4(p)
	if len(got) != 3 || got[2].Accept || got[2].Ports != all {
		t.Error(got)
	}
	if got := only4(netdoc.ExitPolicy{{Accept: true, Ports: all}, {Ports: all}}); len(got) != 1 || !got[0].Accept {
		t.Error(got)
	}
}

// TestProtocols: what a relay advertises can be read, and says every handshake that
// the relay serves.
func TestProtocols(t *testing.T) {
	for _, s := range []string{Protocols, protover.All} {
		p, err := protover.Parse(s)
		if err != nil || p.String() != s {
			t.Errorf("%q reads as %q: %v", s, p, err)
		}
		for _, k := range handshake.Kinds {
			if k.Proto != "" && !p.Has(k.Proto, k.Version) {
				t.Errorf("%q lacks %s=%d, which %s needs", s, k.Proto, k.Version, k.Name)
			}
		}
	}
}

// TestDoSTableIsFull: addresses that come when the table is full are limited too;
// banned addresses and those with connections stay in the table longer than
// others.
func TestDoSTableIsFull(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := newDoS(func() time.Time { return now }, true, false)
	d.params = dosParams{conns: true, connMax: 10, connPace: pace.Limit{Rate: 1e-9, Burst: 5}, connBan: time.Hour}
	at := func(i int) netip.Addr {
		return netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	const busy = maxPeers / 4
	for i := range maxPeers + maxPeers/8 {
		if !d.connect(at(i)) {
			t.Fatal("a new address is refused", i)
		}
		if i >= busy {
			d.disconnect(at(i))
		}
	}
	if n := len(d.peers); n > maxPeers {
		t.Errorf("%d addresses are remembered", n)
	}
	for i := range busy {
		if p := d.peers[netaddr.Peer(at(i))]; p == nil || p.conns != 1 {
			t.Fatalf("%d has a connection, and is known as %v", i, p)
		}
	}
	late := netip.MustParseAddr("192.0.2.1")
	for range 5 {
		if !d.connect(late) {
			t.Fatal("too early")
		}
		d.disconnect(late)
	}
	if d.connect(late) {
		t.Error("an address that came late connects without limit")
	}
	for i := 2 * maxPeers; len(d.peers) < maxPeers; i++ {
		d.connect(at(i))
	}
	// If every known address has a connection, only file descriptors are the
	// bound.
	for _, p := range d.peers {
		p.conns++
	}
	if !d.connect(netip.MustParseAddr("192.0.2.2")) || len(d.peers) != maxPeers+1 {
		t.Error("an address with a connection was forgotten")
	}
	// If all are banned, one ban is dropped.
	for _, p := range d.peers {
		p.conns, p.banConn = 0, now.Add(time.Hour)
	}
	d.connect(netip.MustParseAddr("192.0.2.3"))
	if len(d.peers) != maxPeers+1 {
		t.Errorf("%d addresses are remembered", len(d.peers))
	}
}
