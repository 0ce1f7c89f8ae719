package circuit

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/handshake"
)

// fill pushes n jobs, each a circuit of its own, and returns those that were
// not dropped by that push, and who else was.
func fill(q *onionQueue, from *channel.Channel, n int, delay time.Duration) (kept, others int) {
	for range n {
		j := onionJob{c: new(Circuit)}
		switch d, _ := q.push(from, j, delay); {
		case d == nil:
			kept++
		case d.c == j.c:
		default:
			kept++
			others++
		}
	}
	return kept, others
}

// take pops n jobs.
func take(t *testing.T, q *onionQueue, n int) (out []*Circuit) {
	t.Helper()
	for range n {
		j, ok := q.pop()
		if !ok {
			t.Fatal("the queue is closed")
		}
		out = append(out, j.c)
	}
	return out
}

// TestOnionQueueFair: a flood over one channel is dropped, what comes over
// another is not, and waits for one handshake, not for the flood.
func TestOnionQueueFair(t *testing.T) {
	q := newOnionQueue(1)
	q.cost.Store(int64(time.Millisecond))
	const delay = 100 * time.Millisecond
	flood, victim := new(channel.Channel), new(channel.Channel)
	if kept, _ := fill(q, flood, 10_000, delay); kept != 101 {
		t.Fatalf("%d of the flood wait, at a millisecond each", kept)
	}
	if kept, others := fill(q, victim, 20, delay); kept != 20 || others != 20 {
		t.Fatalf("%d of the victim's were queued, for %d of the flood's", kept, others)
	}
	if kept, others := fill(q, flood, 1000, delay); kept != 0 || others != 0 {
		t.Fatalf("the flood got %d in, and %d out", kept, others)
	}
	if q.waiting != 101 {
		t.Fatalf("%d wait", q.waiting)
	}
	mine := map[*Circuit]bool{}
	for _, j := range q.lists[victim].jobs {
		mine[j.c] = true
	}
	served := 0
	for _, c := range take(t, q, 41) {
		if mine[c] {
			served++
		}
	}
	if served != 20 {
		t.Errorf("%d of the victim's are among the first 41 served", served)
	}
	if take(t, q, 60); q.waiting != 0 || q.turn != nil || len(q.lists) != 0 {
		t.Errorf("%d wait, on %d lists", q.waiting, len(q.lists))
	}
}

// TestOnionQueueOrder: of one channel the oldest comes first.
func TestOnionQueueOrder(t *testing.T) {
	q := newOnionQueue(1)
	ch := new(channel.Channel)
	var want []*Circuit
	for range 5 {
		j := onionJob{c: new(Circuit)}
		want = append(want, j.c)
		q.push(ch, j, time.Second)
	}
	for i, c := range take(t, q, 5) {
		if c != want[i] {
			t.Fatal("out of order at", i)
		}
	}
}

// TestOnionQueueBound: however cheap they are, only so many wait.
func TestOnionQueueBound(t *testing.T) {
	q := newOnionQueue(1)
	q.cost.Store(0)
	chans := make([]*channel.Channel, 100)
	total := 0
	for i := range chans {
		chans[i] = new(channel.Channel)
		kept, others := fill(q, chans[i], 200, time.Second)
		total += kept - others
	}
	if total != maxOnionQueue || q.waiting != maxOnionQueue {
		t.Errorf("%d were kept, %d wait", total, q.waiting)
	}
	for _, l := range q.lists {
		if n := len(l.jobs); n < maxOnionQueue/100-1 || n > 200 {
			t.Errorf("a channel has %d waiting", n)
		}
	}
}

// TestOnionQueuesApart: post-quantum onionskins and rekeys wait among
// themselves; however long that takes, ntor's do not wait for them.
func TestOnionQueuesApart(t *testing.T) {
	s := &Server{cfg: ServerConfig{MaxOnionDelay: time.Second, Stats: new(ServerStats)}, skin: newOnionQueue(1), pq: newOnionQueue(1)}
	job := func(k *handshake.Kind, hop *Hop) {
		j := onionJob{c: new(Circuit), kind: k, hop: hop, cost: handshake.CostMLKEM}
		if k != nil {
			j.cost = k.Cost
		}
		j.c.home.Store(new(channel.CircuitEnd))
		s.enqueue(j)
	}
	s.pq.cost.Store(int64(400 * time.Millisecond))
	job(handshake.PQ768.Kind(), nil)
	job(handshake.PQ1024.Kind(), nil)
	job(nil, new(Hop)) // a rekey: the third, and so the last that may wait
	for range 20 {
		job(handshake.Ntor, nil)
		job(handshake.NtorV3, nil)
	}
	if s.pq.waiting != 3 || s.skin.waiting != 40 || s.cfg.Stats.OnionskinsDropped.Load() != 0 {
		t.Errorf("%d and %d wait, %d were dropped", s.pq.waiting, s.skin.waiting, s.cfg.Stats.OnionskinsDropped.Load())
	}
}

func TestOnionQueueClose(t *testing.T) {
	q := newOnionQueue(2)
	done := make(chan bool)
	go func() { _, ok := q.pop(); done <- ok }()
	q.close()
	if <-done {
		t.Error("a job out of nothing")
	}
}
