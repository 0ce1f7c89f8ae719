package flow

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(us int64) time.Time { return epoch.Add(time.Duration(us) * time.Microsecond) }

func truth(n int64) bool { return n == 1 }

type vectors struct {
	Vegas [][][10]int64
	RTT   [][7]int64
	Clock [][5]int64
}

func load(t *testing.T) (v vectors) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vegas) != 4 || len(v.RTT) == 0 || len(v.Clock) == 0 {
		t.Fatal("vectors are missing")
	}
	return v
}

func newVegas() *vegas {
	p := DefaultParams()
	return NewVegasSender(&p, PathExit, p.SendmeInc).(*vegas)
}

func TestVegasVectors(t *testing.T) {
	for n, run := range load(t).Vegas {
		v := newVegas()
		for i, r := range run {
			v.infl = int(r[3])
			v.rtt.sent(at(r[0]))
			if err := v.Sendme(at(r[1]), truth(r[2])); err != nil {
				t.Fatal(err)
			}
			s := v.State()
			got := [6]int64{s.RTT.Microseconds(), s.MinRTT.Microseconds(), int64(s.Cwnd)}
			want := [6]int64{r[4], r[5], r[6]}
			if got != want || s.SlowStart != truth(r[7]) || s.Full != truth(r[8]) || s.Blocked != truth(r[9]) {
				t.Errorf("run %d row %d: %+v, want %v", n, i, s, r)
			}
		}
	}
}

func TestRTTVectors(t *testing.T) {
	v := newVegas()
	for i, r := range load(t).RTT {
		v.cwnd, v.slow = int(r[2]), truth(r[3])
		v.rtt.sent(at(r[0]))
		from, _ := v.rtt.take()
		d := at(r[1]).Sub(from)
		if !v.rtt.update(d, v) || d.Microseconds() != r[4] || int64(v.rtt.ewma) != r[5] || int64(v.rtt.min) != r[6] {
			t.Errorf("row %d: %v %+v, want %v", i, d, v.rtt, r)
		}
	}
}

// Rows: old time, new time, slow start, clock suspected afterwards, verdict.
func TestClockVectors(t *testing.T) {
	v := newVegas()
	for i, r := range load(t).Clock {
		v.rtt.ewma = uint64(r[0])
		got := v.rtt.suspect(uint64(r[1]), truth(r[2]))
		if got != truth(r[4]) || v.rtt.stalled != truth(r[3]) {
			t.Errorf("row %d %v: %v, stalled %v", i, r, got, v.rtt.stalled)
		}
	}
}

func TestStalledClock(t *testing.T) {
	v := newVegas()
	for range 10 * v.inc {
		v.Sent(epoch)
	}
	for range 4 {
		if err := v.Sendme(epoch, false); err != nil {
			t.Fatal(err)
		}
	}
	if s := v.State(); s.Cwnd != 124 || s.Inflight != 6*v.inc || s.RTT != 0 {
		t.Errorf("a stalled clock moved the window: %+v", s)
	}
	if err := v.Sendme(epoch, true); err != nil {
		t.Fatal(err)
	}
	if s := v.State(); s.SlowStart || s.Cwnd < v.p.CwndMin {
		t.Errorf("a blocked channel did not end slow start: %+v", s)
	}
}

// Whatever happens the window stays within its bounds, what is available plus
// what is in flight is the window, and SENDMEs come only for what was sent.
func TestVegasInvariants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		p := DefaultParams()
		p.CwndMax = 500 + rnd.IntN(2000)
		p.FullPerCwnd = rnd.IntN(2) == 0
		inc := 1 + rnd.IntN(100)
		s := NewVegasSender(&p, Path(rnd.IntN(3)), inc)
		now, due := epoch, 0
		for range 3000 {
			now = now.Add(time.Duration(rnd.IntN(5000)) * time.Microsecond)
			if n := min(s.Available(), rnd.IntN(200)); rnd.IntN(2) == 0 {
				for range n {
					if s.Sent(now) {
						due++
					}
				}
			} else if due > 0 {
				due--
				if err := s.Sendme(now, rnd.IntN(20) == 0); err != nil {
					t.Fatal(err)
				}
			} else if err := s.Sendme(now, false); !fault.Is(err, fault.Protocol) {
				t.Fatal("a SENDME that was not due was accepted")
			}
			st := s.State()
			if st.Cwnd < min(p.CwndMin, p.CwndMax) || st.Cwnd > p.CwndMax || s.Available() != max(0, st.Cwnd-st.Inflight) {
				t.Fatalf("%+v, available %d", st, s.Available())
			}
			if st.Inflight/inc != due {
				t.Fatalf("%d in flight, %d SENDMEs due", st.Inflight, due)
			}
		}
	}
}

func TestWindowSender(t *testing.T) {
	p := DefaultParams()
	s, r := NewWindowSender(&p), NewReceiver(CircWindowIncrement)
	if err := s.Sendme(epoch, false); !fault.Is(err, fault.Protocol) {
		t.Error("an early SENDME was accepted")
	}
	due := 0
	for i := 1; s.Available() > 0; i++ {
		tag, sendme := s.Sent(epoch), r.Received()
		if tag != sendme || tag != (i%100 == 0) {
			t.Fatalf("cell %d: sender %v, receiver %v", i, tag, sendme)
		}
		if tag {
			due++
		}
	}
	if st := s.State(); due != 10 || st.Inflight != 1000 || st.Cwnd != 1000 {
		t.Errorf("%d SENDMEs for a window, %+v", due, st)
	}
	for range due {
		if err := s.Sendme(epoch, false); err != nil {
			t.Fatal(err)
		}
	}
	if s.Available() != 1000 || s.Sendme(epoch, false) == nil {
		t.Error("the window is not what it was")
	}
}

// TestOddWindow: a first window that is no multiple of 100 changes nothing about which cells
// the receiver acknowledges.
func TestOddWindow(t *testing.T) {
	p := DefaultParams()
	p.CircWindow = 150
	s, r := NewWindowSender(&p), NewReceiver(CircWindowIncrement)
	for i := range 1000 {
		tag, sendme := s.Sent(epoch), r.Received()
		if tag != sendme {
			t.Fatalf("cell %d: sender %v, receiver %v", i+1, tag, sendme)
		}
		if sendme {
			if err := s.Sendme(epoch, false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestVegasSenderAndReceiverAgree(t *testing.T) {
	p := DefaultParams()
	for _, inc := range []int{1, 30, 31, 32, 100} {
		s, r := NewVegasSender(&p, PathExit, inc), NewReceiver(inc)
		for i := range 120 {
			if s.Sent(epoch) != r.Received() {
				t.Fatalf("increment %d, cell %d", inc, i)
			}
		}
	}
}

func TestTagQueue(t *testing.T) {
	var q TagQueue
	if err := q.Check(make([]byte, 20)); !fault.Is(err, fault.Protocol) {
		t.Error("a SENDME before any data was accepted")
	}
	mk := func(i int) []byte {
		n := 20
		if i%3 == 0 {
			n = 16
		}
		return bytes.Repeat([]byte{byte(i + 1)}, n)
	}
	in, out := 0, 0
	for range 500 {
		for range 1 + in%7 {
			q.Push(mk(in))
			in++
		}
		for range min(q.Len(), 1+out%5) {
			if err := q.Check(mk(out)); err != nil {
				t.Fatal(out, err)
			}
			out++
		}
	}
	if q.Len() != in-out {
		t.Error("length")
	}
	for name, f := range map[string]func(b []byte) []byte{
		"flipped":  func(b []byte) []byte { b[7] ^= 1; return b },
		"short":    func(b []byte) []byte { return b[:len(b)-1] },
		"empty":    func(b []byte) []byte { return nil },
		"extended": func(b []byte) []byte { return append(b, 0) },
	} {
		var q TagQueue
		q.Push(mk(1))
		if err := q.Check(f(mk(1))); !fault.Is(err, fault.Protocol) {
			t.Errorf("a %s tag was accepted", name)
		}
	}
	q = TagQueue{}
	b := mk(1)
	q.Push(b)
	b[0]++ // the queue keeps a copy
	if q.Check(mk(1)) != nil {
		t.Error("the tag was not copied")
	}
	if n := testing.AllocsPerRun(100, func() { q.Push(b); q.Check(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStreamWindow(t *testing.T) {
	s, r := NewStreamSender(), NewStreamReceiver()
	if s.Sendme() == nil {
		t.Error("an early SENDME was accepted")
	}
	for s.Available() > 0 {
		s.Sent()
		if err := r.Received(); err != nil {
			t.Fatal(err)
		}
		if r.Due(1<<20) != 0 {
			t.Fatal("a SENDME for a reader that does not read")
		}
	}
	if err := r.Received(); !fault.Is(err, fault.Protocol) {
		t.Error("an overrun was accepted")
	}
	n := r.Due(0)
	if n != 10 || r.Due(0) != 0 {
		t.Errorf("%d SENDMEs", n)
	}
	for range n {
		if err := s.Sendme(); err != nil {
			t.Fatal(err)
		}
	}
	if s.Available() != 500 || s.Sendme() == nil {
		t.Error("the window is not what it was")
	}
	for i := 1; i < 200; i++ {
		s.Sent()
		if err := r.Received(); err != nil {
			t.Fatal(err)
		}
		if got := r.Due(0); got != map[bool]int{true: 1}[i%50 == 0] {
			t.Fatalf("cell %d: %d SENDMEs", i, got)
		}
	}
}

func TestParams(t *testing.T) {
	p := DefaultParams()
	if p.Thresholds[PathExit] != (Thresholds{186, 248, 186, 310, 600}) ||
		p.Thresholds[PathOnion] != (Thresholds{186, 372, 248, 434, 475}) ||
		p.Thresholds[PathSBWS] != (Thresholds{93, 155, 124, 248, 400}) {
		t.Errorf("%+v", p.Thresholds)
	}
	for inc, ok := range map[int]bool{0: false, 29: false, 30: true, 31: true, 32: true, 33: false} {
		if p.AcceptIncrement(inc) != ok {
			t.Error(inc)
		}
	}
	seen := map[string]bool{}
	p = ParamsFrom(func(name string, def, lo, hi int32) int32 {
		if seen[name] || def < lo || def > hi {
			t.Errorf("%s: named twice, or its default %d is not within %d..%d", name, def, lo, hi)
		}
		seen[name] = true
		return lo
	})
	if seen["cc_alg"] || p.SendmeInc != 1 || p.FullPerCwnd {
		t.Errorf("%+v", p)
	}
}

func TestNoAllocations(t *testing.T) {
	p := DefaultParams()
	v, r := NewVegasSender(&p, PathExit, p.SendmeInc), NewReceiver(p.SendmeInc)
	now := epoch
	if n := testing.AllocsPerRun(100, func() {
		for range p.SendmeInc {
			now = now.Add(time.Microsecond)
			v.Sent(now)
			r.Received()
		}
		if err := v.Sendme(now.Add(time.Millisecond), false); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a SENDME", n)
	}
}

func BenchmarkVegas(b *testing.B) {
	p := DefaultParams()
	v := NewVegasSender(&p, PathExit, p.SendmeInc)
	now := epoch
	b.ReportAllocs()
	for b.Loop() { // one cell; every 31st brings a SENDME
		now = now.Add(time.Microsecond)
		if v.Sent(now) {
			if err := v.Sendme(now.Add(time.Millisecond), false); err != nil {
				b.Fatal(err)
			}
		}
	}
}
