package links

import (
	"math"
	"testing"
	"time"
)

// flood sends packets at twice the rate of a link for a time.
func flood(t *testing.T, rules Rules, long time.Duration) []Outcome {
	var packets []packet
	gap := transmission(1000, rules.Rate) / 2
	for at := time.Duration(0); at < long; at += gap {
		packets = append(packets, packet{at, 1000})
	}
	return through(t, rules, nil, 0, packets, always)
}

// TestControlLaw: RFC 8289, sections 3.2 and 5.3. Drops begin when packets have waited longer than
// the target for an interval; then each comes an interval divided by the root of their number
// after the one before.
func TestControlLaw(t *testing.T) {
	rules := Rules{Rate: 80_000_000, Discipline: CoDel, Queue: 1 << 30} // 0.1 ms a packet
	var drops []time.Duration
	for _, o := range flood(t, rules, 2*time.Second) {
		if o.Fate == Early {
			drops = append(drops, o.At)
		}
	}
	if len(drops) < 20 {
		t.Fatalf("%d drops", len(drops))
	}
	slot := transmission(1000, rules.Rate)
	// The queue grows by half a packet in the time of one: after 10 ms packets wait 5 ms.
	if want := 10*ms + 100*ms; drops[0] < want-2*slot || drops[0] > want+2*slot {
		t.Errorf("the first drop at %v, want %v", drops[0], want)
	}
	// In ms: 100, 70.7, 57.7, 50, 44.7 and so on. A drop waits for a packet to leave.
	due := drops[0]
	for i, at := range drops[1:] {
		due += time.Duration(float64(100*ms) / math.Sqrt(float64(i+1)))
		if at < due || at > due+slot {
			t.Errorf("drop %d at %v, want %v", i+2, at, due)
		}
	}
}

// TestBursts: RFC 8289, section 3.2. A burst that is gone within an interval is not touched,
// and neither is a queue of less than a packet.
func TestBursts(t *testing.T) {
	var packets []packet
	for i := range 20 {
		for range 40 { // 40 ms of the link, each 200 ms
			packets = append(packets, packet{time.Duration(i) * 200 * ms, 1000})
		}
	}
	for _, o := range through(t, Rules{Rate: 8_000_000, Discipline: CoDel}, nil, 0, packets, always) {
		if o.Fate != Passed {
			t.Fatalf("packet %d of a burst: fate %d", o.ID, o.Fate)
		}
	}
	packets = packets[:0]
	for i := range 500 { // each waits 18 ms for the one before, alone
		packets = append(packets, packet{time.Duration(i) * 40 * ms, 1000})
		packets = append(packets, packet{time.Duration(i)*40*ms + 2*ms, 1000})
	}
	for _, o := range through(t, Rules{Rate: 400_000, Discipline: CoDel, MTU: 1000}, nil, 0, packets, always) {
		if o.Fate != Passed {
			t.Fatalf("packet %d of a short queue: fate %d", o.ID, o.Fate)
		}
	}
}

// TestResponsive: a sender that halves its window at each drop, as TCP, has a queue near the target
// where drop-tail has a full one, and the link stays busy (RFC 8289, section 3.1).
func TestResponsive(t *testing.T) {
	run := func(d Discipline) (wait time.Duration, busy float64) {
		rules := Rules{Rate: 8_000_000, Delay: 20 * ms, Discipline: d, Queue: 400_000}
		p, err := NewPipe(rules, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		const long = 60 * time.Second
		window, flying := 10.0, 0
		var sent []time.Duration // by ID
		type event struct {
			at   time.Duration
			lost bool
			sent time.Duration
		}
		var events []event
		var now, sum, calm time.Duration
		passed := 0
		take := func(out []Outcome) {
			for _, o := range out {
				if o.Fate == Passed {
					events = append(events, event{o.At + 20*ms, false, sent[o.ID]}) // the way back
					sum += o.At - 21*ms - sent[o.ID]
					passed++
				} else {
					events = append(events, event{o.At + 40*ms, true, sent[o.ID]})
				}
			}
		}
		for now < long {
			for ; float64(flying) < window; flying++ {
				sent = append(sent, now)
				take(p.Arrive(now, uint64(len(sent)-1), 1000))
			}
			next, at := time.Duration(math.MaxInt64), -1
			for i, e := range events {
				if e.at < next {
					next, at = e.at, i
				}
			}
			if n, ok := p.Next(); ok && n < next {
				now = n
				take(p.Advance(n))
				continue
			}
			e := events[at]
			events[at] = events[len(events)-1]
			events = events[:len(events)-1]
			now = max(now, e.at)
			flying--
			switch {
			case !e.lost:
				window += 1 / window
			case e.sent >= calm: // once a round
				window, calm = max(2, window/2), now
			}
		}
		return sum / time.Duration(passed), float64(passed) * 8000 / float64(rules.Rate) / long.Seconds()
	}
	wait, busy := run(CoDel)
	tail, full := run(DropTail)
	t.Logf("CoDel: packets wait %v, the link is used by %.3f; drop-tail: %v, %.3f", wait, busy, tail, full)
	if wait > 20*ms || busy < .85 {
		t.Errorf("CoDel: packets wait %v, the link is used by %.3f", wait, busy)
	}
	if tail < 5*wait {
		t.Errorf("drop-tail: packets wait %v, with CoDel %v", tail, wait)
	}
}
