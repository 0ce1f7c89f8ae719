package dirserver

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/simnet"
)

// TestBeginLimits: the parameters' defaults, bounds and types are C tor's, as its manual
// page of 0.4.9.15 has them.
func TestBeginLimits(t *testing.T) {
	for _, c := range []struct {
		params string
		pace   pace.Limit
		want   beginLimits
	}{
		{"", pace.Limit{Rate: 10, Burst: 60}, beginLimits{destroy: true}},
		{"DoSBeginDirBurst=7 DoSBeginDirDefenseType=2 DoSBeginDirLimitEnabled=1 DoSBeginDirRate=3", pace.Limit{Rate: 3, Burst: 7}, beginLimits{once: true}},
		{"DoSBeginDirBurst=-5 DoSBeginDirDefenseType=9 DoSBeginDirLimitEnabled=-1 DoSBeginDirRate=0", pace.Limit{Rate: 1, Burst: 1}, beginLimits{destroy: true}},
		{"DoSBeginDirRateEnabled=0", pace.Limit{}, beginLimits{}},
		{"DoSBeginDirDefenseType=1", pace.Limit{}, beginLimits{}},
		{"DoSBeginDirLimitEnabled=1 DoSBeginDirRateEnabled=0", pace.Limit{}, beginLimits{once: true}},
	} {
		p, err := netdoc.ParseParams(netdoc.Args(c.params))
		if err != nil {
			t.Fatal(err)
		}
		got := beginLimitsOf(p)
		var rate pace.Limit
		if got.pace != nil {
			rate = *got.pace
		}
		if got.pace = nil; got != c.want || rate != c.pace {
			t.Errorf("%q: %v, %v", c.params, got, rate)
		}
	}
}

// TestBeginsOfOneCircuit: each circuit has its own burst, and time gives it more. What is
// known of a circuit ends with it: see TestBeginsEnd.
func TestBeginsOfOneCircuit(t *testing.T) {
	b := begins{circs: map[*circuit.Circuit]*begun{}}
	a, other, now := new(circuit.Circuit), new(circuit.Circuit), time.Unix(1e9, 0)
	limits := beginLimitsOf(nil)
	take := func(c *circuit.Circuit) (n int) {
		for {
			quick, _ := b.count(c, limits, now)
			if quick {
				return n
			}
			n++
		}
	}
	if _, again := b.count(a, limits, now); again {
		t.Error("the first is one too many")
	}
	if _, again := b.count(a, limits, now); !again {
		t.Error("the second is the first")
	}
	if n := take(a); n != 58 {
		t.Errorf("%d after two", n)
	}
	if n := take(other); n != 60 {
		t.Errorf("%d of another circuit", n)
	}
	if now = now.Add(3 * time.Second); take(a) != 30 {
		t.Error("not ten a second")
	}
	if now = now.Add(time.Hour); take(a) != 60 {
		t.Error("more than the burst")
	}
	if len(b.circs) != 2 {
		t.Errorf("%d circuits", len(b.circs))
	}
}

// asked has a server judge each BEGIN_DIR, and tells of it.
type asked struct {
	s    *Server
	told chan asking
}

type asking struct {
	c    *circuit.Circuit
	cost int64
}

func (a asked) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	c := h.Circuit()
	before := c.Account().Used()
	a.s.Admit(c)
	a.told <- asking{c, c.Account().Used() - before}
	return nil
}

// TestBeginsEnd: a circuit pays for what is known of it, and takes it along.
func TestBeginsEnd(t *testing.T) {
	a := asked{New(Config{Docs: new(Memory)}), make(chan asking, 1)}
	r := simnet.New(t, simnet.Options{Streams: a, Memory: account.New(1 << 30)})
	c := r.Circuit(t)
	ended := make(chan struct{})
	for i, want := range []int64{begunCost, 0, 0} {
		if err := c.Last().Send(cell.RelayBeginDir, uint16(1+i), nil); err != nil {
			t.Fatal(err)
		}
		far := <-a.told
		if far.cost != want {
			t.Errorf("number %d: %d bytes more are counted", i, far.cost)
		}
		if n := len(a.s.begins.circs); n != 1 {
			t.Errorf("%d circuits are known", n)
		}
		if i == 0 {
			far.c.OnClose(func(error) { close(ended) })
		}
	}
	c.Close(cell.DestroyNone, nil)
	<-ended
	if _, again := a.s.begins.count(c, beginLimitsOf(nil), time.Now()); again { // closed
		t.Error("it had begun nothing")
	}
	r.Clients.WaitEnds()
	a.s.begins.mu.Lock()
	defer a.s.begins.mu.Unlock()
	if n := len(a.s.begins.circs); n != 0 {
		t.Errorf("%d closed circuits are known", n)
	}
}
