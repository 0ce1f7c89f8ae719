package links

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// packet is an arrival.
type packet struct {
	at   time.Duration
	size int
}

// through sends packets through a pipe, and asks it in between as often as asks says.
func through(t *testing.T, rules Rules, steps []Step, seed uint64, packets []packet, asks func() bool) []Outcome {
	t.Helper()
	p, err := NewPipe(rules, steps, seed)
	if err != nil {
		t.Fatal(err)
	}
	var all []Outcome
	for i, k := range packets {
		for next, ok := p.Next(); ok && next <= k.at && asks(); next, ok = p.Next() {
			all = append(all, p.Advance(next)...)
		}
		all = append(all, p.Arrive(k.at, uint64(i), k.size)...)
	}
	for next, ok := p.Next(); ok; next, ok = p.Next() {
		all = append(all, p.Advance(next)...)
	}
	return all
}

func always() bool { return true }

// byID puts outcomes in the order of the packets, of which each has one.
func byID(t *testing.T, all []Outcome, n int) []Outcome {
	t.Helper()
	out := slices.Clone(all)
	slices.SortFunc(out, func(a, b Outcome) int { return int(a.ID) - int(b.ID) })
	for i, o := range out {
		if o.ID != uint64(i) {
			t.Fatalf("packet %d has no outcome, or two", i)
		}
	}
	if len(out) != n {
		t.Fatalf("%d outcomes of %d packets", len(out), n)
	}
	return out
}

// slow is the reference: it looks for the next event among all, adds the queue up each time, and
// has the text of RFC 8289 in the plainest form. Only the luck is drawn as in the pipe.
func slow(rules Rules, steps []Step, seed uint64, packets []packet) []Outcome {
	r := rules.Defaults()
	d := newDice(seed)
	var out []Outcome
	type item struct {
		i int
		l luck
	}
	var queue []item
	var free, order, firstAbove, dropNext time.Duration
	firstAbove = -1
	count, lastCount, dropping := 0, 0, false
	bytes := func() (n int) {
		for _, q := range queue {
			n += packets[q.i].size
		}
		return n
	}
	carry := func(q item, now time.Duration) {
		end := now
		if r.Rate > 0 {
			bits := int64(packets[q.i].size) * 8
			ns := bits * 1e9 / r.Rate
			if ns*r.Rate < bits*1e9 {
				ns++
			}
			end += time.Duration(ns)
		}
		free = end
		if q.l.lost {
			out = append(out, Outcome{uint64(q.i), Lost, end})
			return
		}
		way := r.Delay + q.l.jitter
		if way < 0 {
			way = 0
		}
		at := end + way
		if at < order {
			at = order
		}
		if q.l.held == 0 {
			order = at
		}
		out = append(out, Outcome{uint64(q.i), Passed, at + q.l.held})
	}
	dequeue := func(now time.Duration) (q *item, ok bool) {
		if len(queue) == 0 {
			firstAbove = -1
			return nil, false
		}
		head := queue[0]
		queue = queue[1:]
		if now-packets[head.i].at < r.Target || bytes() <= r.MTU {
			firstAbove = -1
		} else if firstAbove < 0 {
			firstAbove = now + r.Interval
		} else if now >= firstAbove {
			ok = true
		}
		return &head, ok
	}
	law := func(t time.Duration) time.Duration {
		p, err := NewPipe(Rules{}, nil, 0)
		if err != nil {
			panic(err)
		}
		p.codel.count = count
		return p.codel.pace(t, r.Interval)
	}
	drop := func(q *item, now time.Duration) { out = append(out, Outcome{uint64(q.i), Early, now}) }
	leave := func(now time.Duration) {
		if r.Discipline != CoDel {
			firstAbove, dropNext, count, lastCount, dropping = -1, 0, 0, 0, false
			head := queue[0]
			queue = queue[1:]
			carry(head, now)
			return
		}
		q, ok := dequeue(now)
		if dropping {
			if !ok {
				dropping = false
			}
			for dropping && now >= dropNext {
				drop(q, now)
				count++
				if q, ok = dequeue(now); !ok {
					dropping = false
				} else {
					dropNext = law(dropNext)
				}
			}
		} else if ok {
			drop(q, now)
			q, _ = dequeue(now)
			dropping = true
			delta := count - lastCount
			count = 1
			if delta > 1 && now-dropNext < 16*r.Interval {
				count = delta
			}
			dropNext = law(now)
			lastCount = count
		}
		if q != nil {
			carry(*q, now)
		}
	}
	now, i := time.Duration(0), 0
	for i < len(packets) || len(queue) > 0 {
		const never = time.Duration(1) << 62
		step, depart, arrive := never, never, never
		if len(steps) > 0 {
			step = max(steps[0].At, now)
		}
		if len(queue) > 0 {
			depart = max(free, now)
		}
		if i < len(packets) {
			arrive = packets[i].at
		}
		switch now = min(step, depart, arrive); {
		case step == now:
			r = steps[0].Rules.Defaults()
			steps = steps[1:]
		case depart == now:
			leave(now)
		default:
			q := item{i, d.draw(&r)}
			size := packets[i].size
			i++
			switch {
			case size > r.MTU:
				out = append(out, Outcome{uint64(q.i), TooLong, now})
			case len(queue) == 0 && free <= now:
				firstAbove, dropping = -1, false
				carry(q, now)
			case bytes()+size > r.Queue:
				out = append(out, Outcome{uint64(q.i), Full, now})
			default:
				queue = append(queue, q)
			}
		}
	}
	return out
}

// anyRules makes rules of all kinds.
func anyRules(r *rand.Rand) Rules {
	out := Rules{Delay: time.Duration(r.IntN(60)) * ms, MTU: 1000 + r.IntN(600), Queue: 1 + r.IntN(60_000)}
	if r.IntN(8) > 0 {
		out.Rate = 50_000 << r.IntN(10)
	}
	switch r.IntN(4) {
	case 0:
		out.Jitter, out.Spread = Uniform, time.Duration(r.IntN(30))*ms
	case 1:
		out.Jitter, out.Spread = Normal, time.Duration(r.IntN(30))*ms
	case 2:
		out.Jitter, out.Table = Table, []time.Duration{-5 * ms, 0, 1, 20 * ms}
	}
	if r.IntN(2) > 0 {
		out.Loss = r.Float64() / 10
	}
	if r.IntN(2) > 0 {
		out.Burst = Burst{r.Float64() / 10, r.Float64(), r.Float64() / 100, r.Float64()}
	}
	if r.IntN(3) == 0 {
		out.Reorder, out.ReorderBy = r.Float64()/5, time.Duration(1+r.IntN(20))*ms
	}
	if r.IntN(2) > 0 {
		out.Discipline = CoDel
		out.Queue = 1 << 20
		if r.IntN(2) > 0 {
			out.Target, out.Interval = time.Duration(1+r.IntN(20))*ms, time.Duration(10+r.IntN(200))*ms
		}
	}
	return out
}

// anyPackets makes arrivals with bursts, ties and pauses.
func anyPackets(r *rand.Rand, n int) []packet {
	out := make([]packet, n)
	at := time.Duration(0)
	gap := time.Duration(1 + r.IntN(int(20*ms)))
	for i := range out {
		switch r.IntN(10) {
		case 0: // at once
		case 1:
			at += time.Duration(r.IntN(100)) * ms
		default:
			at += time.Duration(r.Int64N(int64(gap)))
		}
		if r.IntN(200) == 0 {
			at += time.Duration(r.IntN(5)) * time.Second
			gap = time.Duration(1 + r.IntN(int(20*ms)))
		}
		out[i] = packet{at, 20 + r.IntN(1580)}
	}
	return out
}

// TestReference: the pipe decides as the slow reference, however often it is asked in between.
func TestReference(t *testing.T) {
	seen := [Fates]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 99))
		rules := anyRules(r)
		var steps []Step
		for at := time.Duration(0); len(steps) < r.IntN(6); {
			at += time.Duration(1+r.IntN(2000)) * ms
			steps = append(steps, Step{at, anyRules(r)})
		}
		packets := anyPackets(r, 1000)
		want := slow(rules, steps, seed, packets)
		got := through(t, rules, steps, seed, packets, func() bool { return r.IntN(2) > 0 })
		if !slices.Equal(got, want) {
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("seed %d, %+v: outcome %d is %+v, want %+v", seed, rules, i, got[i], want[i])
				}
			}
			t.Fatalf("seed %d: %d outcomes, want %d", seed, len(got), len(want))
		}
		for _, o := range byID(t, got, len(packets)) {
			seen[o.Fate]++
		}
	}
	for f, n := range seen {
		if n < 1000 {
			t.Errorf("fate %d: only %d packets: the test does not try it", f, n)
		}
	}
}

// TestOrder: without reordering packets keep their order whatever the jitter; with it, only those
// that were held back are late.
func TestOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		rules := anyRules(r)
		rules.Reorder, rules.ReorderBy = 0, 0
		packets := anyPackets(r, 500)
		last := time.Duration(0)
		for _, o := range byID(t, through(t, rules, nil, seed, packets, always), len(packets)) {
			if o.Fate == Passed {
				if o.At < last || o.At < packets[o.ID].at {
					t.Fatalf("seed %d: packet %d overtakes one, or leaves before it came", seed, o.ID)
				}
				last = o.At
			}
		}
	}
	rules := Rules{Delay: 10 * ms, Reorder: 0.1, ReorderBy: 5 * ms}
	late := 0
	const n = 10_000
	packets := make([]packet, n)
	for i := range packets {
		packets[i] = packet{time.Duration(i) * ms, 100}
	}
	for _, o := range byID(t, through(t, rules, nil, 1, packets, always), n) {
		switch d := o.At - packets[o.ID].at; d {
		case 10 * ms:
		case 15 * ms:
			late++
		default:
			t.Fatalf("packet %d takes %v", o.ID, d)
		}
	}
	if late < n/10*9/10 || late > n/10*11/10 {
		t.Errorf("%d of %d packets are held back, want a tenth", late, n)
	}
}

// TestRate: a full queue goes out at the rate to the nanosecond, and as much is dropped as does
// not fit.
func TestRate(t *testing.T) {
	packets := make([]packet, 100)
	for i := range packets {
		packets[i].size = 1250
	}
	got := byID(t, through(t, Rules{Rate: 10_000_000, Delay: 50 * ms, Queue: 50 * 1250}, nil, 0, packets, always), 100)
	for i, o := range got {
		want := Outcome{uint64(i), Passed, 50*ms + time.Duration(i+1)*ms}
		if i > 50 { // one is under way
			want = Outcome{uint64(i), Full, 0}
		}
		if o != want {
			t.Errorf("%+v, want %+v", o, want)
		}
	}
}

// TestTrace: rules change at their time, and the packet under way ends as it began.
func TestTrace(t *testing.T) {
	a, b := Rules{Rate: 8_000_000, Delay: 10 * ms}, Rules{Rate: 800_000, Delay: 100 * ms}
	packets := make([]packet, 3)
	for i := range packets {
		packets[i].size = 1000 // 1 ms, then 10 ms
	}
	want := []Outcome{{0, Passed, 11 * ms}, {1, Passed, 12 * ms}, {2, Passed, 112 * ms}}
	if got := through(t, a, []Step{{1500 * time.Microsecond, b}}, 0, packets, always); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCheck: each mistake is named by its key.
func TestCheck(t *testing.T) {
	for key, r := range map[string]Rules{
		"rate": {Rate: 999}, "delay": {Delay: -1}, "spread": {Jitter: Uniform, Spread: 2 * time.Hour}, "loss": {Loss: 1.1},
		"burst-to-bad": {Burst: Burst{ToBad: -1}}, "burst-to-good": {Burst: Burst{ToGood: 2}}, "burst-loss-good": {Burst: Burst{LossGood: 2}},
		"burst-loss-bad": {Burst: Burst{LossBad: 2}}, "reorder": {Reorder: -1}, "reorder-by": {Reorder: .1}, "queue": {Queue: -1},
		"discipline": {Discipline: "red"}, "target": {Target: -1}, "interval": {Interval: -1}, "mtu": {MTU: 67}, "jitter": {Jitter: "odd"},
		"table": {Jitter: Table},
	} {
		err := r.Check()
		m, ok := err.(*Mistake)
		if !ok || m.Key != key {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := NewPipe(r, nil, 0); err == nil {
			t.Errorf("%s: the pipe takes it", key)
		}
		if _, err := NewPipe(Rules{}, []Step{{0, r}}, 0); err == nil {
			t.Errorf("%s: a step has it", key)
		}
	}
	for _, r := range []Rules{{Spread: 1}, {Table: []time.Duration{1}}, {Jitter: Table, Table: []time.Duration{1}, Spread: 1}, {Jitter: Normal, Table: []time.Duration{1}}} {
		if r.Check() == nil {
			t.Errorf("%+v: a rule has no effect, and nobody says so", r)
		}
	}
	for _, at := range []time.Duration{ms, 0} {
		if _, err := NewPipe(Rules{}, []Step{{ms, Rules{}}, {at, Rules{}}}, 0); err == nil {
			t.Error("steps go back in time")
		}
	}
}

// TestLuck: each kind of loss and jitter has the mean that its parameters say, and bursts their
// length.
func TestLuck(t *testing.T) {
	const n = 400_000
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want*.98 || got > want*1.02 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, c := range []struct {
		what  string
		rules Rules
		burst float64 // the mean length of a run of losses; 0: not known
	}{
		{"independent", Rules{Loss: .05}, 1 / .95},
		{"Gilbert", Rules{Burst: Burst{ToBad: .01, ToGood: .2, LossBad: 1}}, 5},
		{"Gilbert and Elliott", Rules{Burst: Burst{ToBad: .02, ToGood: .1, LossGood: .01, LossBad: .5}}, 0},
		{"both", Rules{Loss: .1, Burst: Burst{ToBad: .01, ToGood: .2, LossBad: 1}}, 0},
	} {
		d, lost, runs, before := newDice(7), 0, 0, false
		for range n {
			l := d.draw(&c.rules)
			if l.lost {
				lost++
				if !before {
					runs++
				}
			}
			before = l.lost
		}
		near(c.what, float64(lost)/n, c.rules.MeanLoss())
		if c.burst > 0 {
			near(c.what+": length", float64(lost)/float64(runs), c.burst)
		}
	}
	for _, c := range []struct {
		Rules
		mean time.Duration
	}{
		{Rules{Delay: 50 * ms}, 50 * ms},
		{Rules{Delay: 50 * ms, Jitter: Uniform, Spread: 20 * ms}, 50 * ms},
		{Rules{Delay: 10 * ms, Jitter: Uniform, Spread: 20 * ms}, 11250 * time.Microsecond}, // a quarter would be early
		{Rules{Delay: 50 * ms, Jitter: Normal, Spread: 20 * ms}, 50 * ms},
		{Rules{Delay: 50 * ms, Jitter: Table, Table: []time.Duration{-10 * ms, 0, 40 * ms}}, 60 * ms},
		{Rules{Delay: 50 * ms, Reorder: .2, ReorderBy: 10 * ms}, 52 * ms},
	} {
		r := c.Rules
		d, sum, squares := newDice(8), 0.0, 0.0
		for range n {
			l := d.draw(&r)
			sum += float64(max(0, r.Delay+l.jitter) + l.held)
			squares += float64(l.jitter) * float64(l.jitter)
		}
		near(fmt.Sprint(r.Jitter, " delay"), sum/n, float64(c.mean))
		if r.Jitter == Normal {
			near("normal", squares/n, float64(r.Spread)*float64(r.Spread))
		}
	}
	if (Burst{LossGood: .3}).Mean() != .3 {
		t.Error("a link that never changes is good")
	}
}
