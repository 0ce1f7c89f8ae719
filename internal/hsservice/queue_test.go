package hsservice

import (
	"bytes"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// queueOf is a queue, and points for it.
func queueOf(n int) (*queue, []*point) {
	points := make([]*point, n)
	for i := range points {
		points[i] = new(point)
	}
	return &queue{most: maxWaiting, ready: make(chan struct{}, 1), counts: new(counts)}, points
}

func anyPoint(*point, uint32) time.Duration { return 0 }

// The points take turns, and of one point's introductions the newest is first.
func TestQueueTurns(t *testing.T) {
	q, p := queueOf(3)
	now := time.Now()
	for i, from := range []int{0, 0, 0, 1, 2, 2} {
		q.add(introduction{p: p[from], body: []byte{byte(i)}, at: now})
	}
	var got []byte
	for {
		in, _, ok := q.take(now, anyPoint)
		if !ok {
			break
		}
		got = append(got, in.body[0])
	}
	if !bytes.Equal(got, []byte{2, 3, 5, 1, 4, 0}) {
		t.Errorf("the order is %v", got)
	}
	if q.n != 0 || len(q.lanes) != 0 {
		t.Errorf("%d are left", q.n)
	}
}

// If too many wait, the oldest of the point with the most is dropped.
func TestQueueBound(t *testing.T) {
	q, p := queueOf(2)
	now := time.Now()
	q.add(introduction{p: p[1], body: []byte{42}, at: now})
	for i := range 10 * maxWaiting {
		q.add(introduction{p: p[0], body: []byte{byte(i)}, at: now})
	}
	if q.n != maxWaiting {
		t.Errorf("%d wait", q.n)
	}
	if n := q.takeDropped(); n != 9*maxWaiting+1 {
		t.Errorf("%d were dropped", n)
	}
	if in, _, _ := q.take(now, anyPoint); in.p != p[1] || in.body[0] != 42 {
		t.Errorf("the other point's is dropped: %v", in.body)
	}
}

// A point that may have no rendezvous now loses neither its turn nor what waits.
func TestQueueSkips(t *testing.T) {
	q, p := queueOf(2)
	now := time.Now()
	q.add(introduction{p: p[0], body: []byte{0}, at: now})
	q.add(introduction{p: p[1], body: []byte{1}, at: now})
	notFirst := func(o *point, _ uint32) time.Duration {
		if o == p[0] {
			return 3 * time.Second
		}
		return 0
	}
	if in, _, ok := q.take(now, notFirst); !ok || in.p != p[1] {
		t.Errorf("%v", ok)
	}
	if _, wait, ok := q.take(now, notFirst); ok || wait != 3*time.Second {
		t.Errorf("%v, %v", wait, ok)
	}
	if in, _, ok := q.take(now, anyPoint); !ok || in.p != p[0] {
		t.Errorf("%v", ok)
	}
}

// What has waited for too long is dropped.
func TestQueueForgets(t *testing.T) {
	q, p := queueOf(2)
	now := time.Now()
	q.add(introduction{p: p[0], body: []byte{0}, at: now})
	q.add(introduction{p: p[0], body: []byte{1}, at: now.Add(time.Second)})
	q.add(introduction{p: p[1], body: []byte{2}, at: now})
	if in, _, ok := q.take(now.Add(maxWait), anyPoint); !ok || in.body[0] != 1 {
		t.Errorf("%v, %v", in.body, ok)
	}
	if _, _, ok := q.take(now.Add(maxWait), anyPoint); ok || q.n != 0 || q.takeDropped() != 2 {
		t.Errorf("%d are left", q.n)
	}
}

// What waits counts on the account of the circuit on which it came, until it is gone.
func TestQueueIsCounted(t *testing.T) {
	q, p := queueOf(1)
	on := account.New(1<<30).Address(netip.Addr{}).Open(account.Circuit, nil)
	now := time.Now()
	for range 10 * maxWaiting {
		q.add(introduction{p: p[0], body: make([]byte, 490), at: now, on: on})
	}
	if used := on.Used(); used != maxWaiting*(490+introductionCost) {
		t.Errorf("%d bytes", used)
	}
	q.take(now, anyPoint)
	if used := on.Used(); used != (maxWaiting-1)*(490+introductionCost) {
		t.Errorf("%d bytes", used)
	}
	q.take(now.Add(maxWait), anyPoint)
	if used := on.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// A point that has fewer places than others gets one of theirs; one that has as many
// waits until the oldest rendezvous has had its time.
func TestPlaces(t *testing.T) {
	s, a := hosted(t, nowhere{})
	b := new(point)
	now := time.Now()
	for i := range maxRendezvous {
		if _, _, err := s.takePlace(wish{through: a, strange: false}, now.Add(time.Duration(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.takePlace(wish{through: a, strange: false}, now.Add(time.Second)); err == nil {
		t.Error("there is no bound")
	}
	took := 0
	for {
		_, u, err := s.takePlace(wish{through: b, strange: false}, now.Add(time.Second))
		if err != nil {
			break
		}
		took++
		if s.pending[len(s.pending)-1] != u || len(s.pending) != maxRendezvous {
			t.Fatalf("%d are under way", len(s.pending))
		}
	}
	if took != maxRendezvous/2 {
		t.Errorf("the second point got %d places", took)
	}
	if first := s.pending[0]; first.since != now.Add(time.Duration(took)) {
		t.Error("it was not the oldest that made room")
	}
	if _, _, err := s.takePlace(wish{through: a, strange: false}, now.Add(time.Second+rendPatience)); err != nil {
		t.Error(err)
	}
}

// The operator hears of a flood, but not of each introduction.
func TestDropsAreTold(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	now := time.Now()
	for _, at := range []time.Duration{0, time.Minute, dropPause} {
		s.waiting.mu.Lock()
		s.waiting.dropped += 7
		s.waiting.mu.Unlock()
		s.warnDroppedLocked(now.Add(at))
	}
	if n := bytes.Count(log.Bytes(), []byte("dropped=7")); n != 1 || bytes.Count(log.Bytes(), []byte("dropped=14")) != 1 {
		t.Errorf("%s", log.Bytes())
	}
}

// Rendezvous points that are not in the consensus have places of their own, and take
// none of the others.
func TestStrangePlaces(t *testing.T) {
	s, p := hosted(t, nowhere{})
	now := time.Now()
	n := 0
	for {
		if _, _, err := s.takePlace(wish{through: p, strange: true}, now); err != nil {
			break
		}
		n++
	}
	if n != maxStrange {
		t.Errorf("%d places", n)
	}
	for range maxRendezvous - maxStrange {
		if _, _, err := s.takePlace(wish{through: p, strange: false}, now.Add(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.takePlace(wish{through: p, strange: false}, now.Add(time.Second)); err == nil {
		t.Error("there is no bound")
	}
	at := now.Add(rendPatience)
	if _, _, err := s.takePlace(wish{through: p, strange: true}, at); err != nil || len(s.pending) != maxRendezvous {
		t.Errorf("%v, %d under way", err, len(s.pending))
	}
	strange := 0
	for _, u := range s.pending {
		if u.strange {
			strange++
		}
	}
	if strange != maxStrange {
		t.Errorf("%d to strangers", strange)
	}
}
