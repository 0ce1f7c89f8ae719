package devp2p

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

func adaptive(t *testing.T) (*Transport, *enode.Node) {
	t.Helper()
	tr, err := New(Config{Policy: Adaptive, Onions: Embedded(nil)})
	if err != nil {
		t.Fatal(err)
	}
	tr.coin = func() float64 { return 1 } // no exploration
	return tr, nodetest.Peer(t, testOnion(1), enr.TCP(1), enr.IPv4(net.IPv4(192, 0, 2, 1)))
}

func (t *Transport) first(tb testing.TB, n *enode.Node) Route {
	tb.Helper()
	routes, err := t.plan(n, true)
	if err != nil || len(routes) != 2 || routes[0].Onion == routes[1].Onion || routes[0].Why == "" || routes[1].Why == "" {
		tb.Fatalf("%v, %v", routes, err)
	}
	return routes[0]
}

// TestAdaptive: the cheaper way is taken, a small difference changes nothing, and a
// failure does.
func TestAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, n := adaptive(t)
		id := n.ID()
		expect := func(when string, onion bool, why string) {
			t.Helper()
			r := tr.first(t, n)
			if r.Onion != onion || !strings.Contains(r.Why, why) {
				t.Errorf("%s: %v", when, r)
			}
			tr.book.took(id, r.Onion)
		}
		expect("at first", true, "nothing is measured")
		tr.book.connected(id, true, time.Second)
		expect("onion known", true, "the address is not measured")
		tr.book.connected(id, false, 900*time.Millisecond)
		tr.book.roundTrip(id, true, 300*time.Millisecond)
		tr.book.roundTrip(id, false, 280*time.Millisecond)
		for _, onion := range []bool{true, false} {
			tr.book.rate(id, onion, 5<<20)
		}
		expect("about the same", true, "too small a difference")
		for range 20 {
			tr.book.roundTrip(id, false, 20*time.Millisecond)
		}
		expect("the address is much faster", false, "it costs")
		for range 20 {
			tr.book.roundTrip(id, true, 20*time.Millisecond)
		}
		expect("the onion is as fast", false, "it costs")
		for range 20 {
			tr.book.failed(id, false)
		}
		expect("the address fails", true, "it costs")
		time.Sleep(measureLife + time.Second) // virtual: the bubble's clock
		expect("all is old", true, "nothing is measured")
	})
}

// TestExplore: the other way is measured again, sometimes.
func TestExplore(t *testing.T) {
	tr, n := adaptive(t)
	tr.book.connected(n.ID(), true, time.Second)
	for _, c := range []struct {
		coin    float64
		known   bool // the address is measured
		explore bool
	}{
		{exploreNew - 0.01, false, true}, {exploreNew, false, false},
		{exploreKnown - 0.01, true, true}, {exploreKnown, true, false},
	} {
		tr.coin = func() float64 { return c.coin }
		if c.known {
			for range 20 {
				tr.book.connected(n.ID(), false, time.Minute)
			}
		}
		if r := tr.first(t, n); r.Onion == c.explore || c.explore != strings.Contains(r.Why, "again") {
			t.Errorf("%+v: %v", c, r)
		}
	}
	// With nothing measured, there is nothing to explore.
	tr, n = adaptive(t)
	tr.coin = func() float64 { return 0 }
	if r := tr.first(t, n); !r.Onion {
		t.Error(r)
	}
}

// TestCost: a big answer costs by the rate, a small one by the round trip.
func TestCost(t *testing.T) {
	near := Measure{RTT: 20 * time.Millisecond, Rate: 100 << 10}
	fast := Measure{RTT: 500 * time.Millisecond, Rate: 50 << 20}
	if near.CostOf(Transactions) >= fast.CostOf(Transactions) || near.CostOf(Bodies) <= fast.CostOf(Bodies) {
		t.Errorf("transactions %v and %v, bodies %v and %v", near.CostOf(Transactions), fast.CostOf(Transactions), near.CostOf(Bodies), fast.CostOf(Bodies))
	}
	failing := near
	failing.Failures = 0.5
	if got, want := failing.CostOf(Headers), 2*near.CostOf(Headers); got < want-time.Millisecond || got > want+time.Millisecond {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestMeasuresBounded: others choose how many nodes there are, so their measurements are
// bounded.
func TestMeasuresBounded(t *testing.T) {
	var b measures
	for i := range maxMeasured + 10 {
		b.connected(enode.ID{byte(i), byte(i >> 8), 1}, true, time.Second)
	}
	if len(b.nodes) != maxMeasured {
		t.Errorf("%d nodes", len(b.nodes))
	}
}

// TestConnMeasures: the first round trip and the rate of bursts; silence does not count.
func TestConnMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		var book measures
		id := enode.ID{1}
		c := &conn{Conn: a, id: id, onion: true, book: &book}
		defer c.Close()
		ended := make(chan struct{})
		defer func() { <-ended }()
		go func() {
			defer close(ended)
			buf := make([]byte, 10)
			b.Read(buf)
			time.Sleep(300 * time.Millisecond)
			b.Write(buf)
			time.Sleep(time.Hour)
			for range 40 { // 4 kB each 10 ms: 400 kB a second
				b.Write(make([]byte, 4<<10))
				time.Sleep(10 * time.Millisecond)
			}
		}()
		c.Write(make([]byte, 10))
		buf := make([]byte, 8<<10)
		for range 41 {
			if _, err := c.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		m := book.get(id, true)
		if m.RTT != 300*time.Millisecond || m.Rate < 390<<10 || m.Rate > 410<<10 {
			t.Errorf("%+v", m)
		}
	})
}
