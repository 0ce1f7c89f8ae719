package flow

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

func TestDrain(t *testing.T) {
	p := DefaultParams()
	d := NewDrain(&p, true)
	now, limit := epoch, p.XoffClient*cellDataMin
	in := func(n, buffered int) Advice {
		t.Helper()
		a, err := d.Received(now, n, buffered)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if in(498, limit) != SendNothing || in(498, limit+1) != SendNothing {
		t.Fatal("XOFF without grace")
	}
	now = now.Add(xoffGrace)
	if in(498, limit+1) != SendNothing {
		t.Fatal("XOFF within the grace period")
	}
	in(0, limit) // the reader ran
	now = now.Add(xoffGrace + 1)
	if in(498, limit+1) != SendNothing {
		t.Fatal("the grace period did not start anew")
	}
	now = now.Add(xoffGrace + 1)
	if in(498, limit+1) != SendXOFF {
		t.Fatal("no XOFF")
	}
	now = now.Add(time.Second)
	if in(498, limit+500) != SendNothing {
		t.Fatal("two XOFFs")
	}
	// 300 kB in 100 ms, then the rest: XON comes when the buffer is empty.
	now = now.Add(100 * time.Millisecond)
	if d.Drained(now, 300_000, 10_000) != SendNothing {
		t.Fatal("XON before the buffer was empty")
	}
	if d.Drained(now, 10_000, 0) != SendXON {
		t.Fatal("no XON")
	}
	if d.Rate() == 0 {
		t.Error("an XON without a rate")
	}
	// Drained as fast as it comes, the rate that was sent doubles and is sent.
	xons := 0
	for range 2000 {
		now = now.Add(time.Millisecond)
		in(498, 498)
		if d.Drained(now, 498, 0) == SendXON {
			xons++
		}
	}
	if xons == 0 || xons > 2000*498/(p.XonRate*cellDataMin)+1 {
		t.Errorf("%d advisory XONs for %d bytes", xons, 2000*498)
	}
}

func TestDrainRate(t *testing.T) {
	p := DefaultParams()
	d := NewDrain(&p, false)
	now := epoch
	d.xoff = true
	for range 100 { // 1 MB/s out of a queue that does not empty
		now = now.Add(100 * time.Millisecond)
		if d.Drained(now, 100_000, 1) != SendNothing {
			t.Fatal("XON with data queued")
		}
	}
	if r := d.Rate(); r < 900 || r > 1500 {
		t.Errorf("%d kB/s measured of 1000", r)
	}
}

// TestDrainMuchData: the count of what was read without a wait stops at its bound.
func TestDrainMuchData(t *testing.T) {
	p := DefaultParams()
	d := NewDrain(&p, true)
	for range 5000 {
		if d.Drained(epoch, 1<<20, 0) != SendNothing {
			t.Fatal("a message for a buffer that is empty")
		}
	}
	if d.drained != math.MaxInt32 {
		t.Errorf("%d bytes counted", d.drained)
	}
}

func TestDrainOverrun(t *testing.T) {
	p := DefaultParams()
	d := NewDrain(&p, true)
	now, total := epoch, 0
	for {
		now = now.Add(6 * time.Millisecond)
		total += 498
		_, err := d.Received(now, 498, total)
		if err != nil {
			if !fault.Is(err, fault.Protocol) {
				t.Error(err)
			}
			break
		}
		if total > 20<<20 {
			t.Fatal("a peer that ignores XOFF fills the memory")
		}
	}
}

func TestThrottle(t *testing.T) {
	p := DefaultParams()
	th := NewThrottle(&p, false)
	now := epoch
	if n, _ := th.Budget(now); n < 1<<30 {
		t.Error("a new stream is limited")
	}
	if err := th.XOFF(); !fault.Is(err, fault.Protocol) {
		t.Error("XOFF before any data")
	}
	th = NewThrottle(&p, false)
	if err := th.XON(now, 1); !fault.Is(err, fault.Protocol) {
		t.Error("XON before any data")
	}
	th = NewThrottle(&p, false)
	for range 501 {
		th.Sent(498)
	}
	if err := th.XOFF(); err != nil {
		t.Fatal(err)
	}
	if n, wait := th.Budget(now); n != 0 || wait != 0 || !th.off {
		t.Error("XOFF does not stop")
	}
	if err := th.XOFF(); !fault.Is(err, fault.Protocol) {
		t.Error("two XOFFs")
	}
	if err := th.XON(now, 100); err != nil { // 100 kB/s
		t.Fatal(err)
	}
	sent := 0
	for range 10_000 {
		n, wait := th.Budget(now)
		if n == 0 {
			if wait <= 0 || wait > time.Second {
				t.Fatal("wait", wait)
			}
			now = now.Add(wait)
			continue
		}
		n = min(n, 498)
		th.Sent(n)
		sent += n
		if now.Sub(epoch) > 10*time.Second {
			break
		}
	}
	// A second's burst, and then the rate.
	if d := now.Sub(epoch).Seconds(); float64(sent) > 100_000*(d+1)+1000 || float64(sent) < 100_000*d {
		t.Errorf("%d bytes in %.1f s", sent, d)
	}
	for range 501 {
		th.Sent(498)
	}
	if err := th.XON(now, 0); err != nil {
		t.Fatal(err)
	}
	if n, _ := th.Budget(now); n < 1<<30 {
		t.Error("rate zero is no limit")
	}
}

// What a Drain sends a Throttle of the same consensus accepts, however the
// reader behaves.
func TestDrainAndThrottleAgree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	p := DefaultParams()
	for range 20 {
		d, th := NewDrain(&p, false), NewThrottle(&p, false)
		now, buffered, xoffs, xons := epoch, 0, 0, 0
		tell := func(a Advice) {
			var err error
			switch a {
			case SendXOFF:
				err = th.XOFF()
				xoffs++
			case SendXON:
				err = th.XON(now, d.Rate())
				xons++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rate := 1 + rnd.IntN(2000) // bytes a millisecond that the reader takes
		for i := range 60_000 {
			if i%5000 == 0 {
				rate = 1 + rnd.IntN(2000)
			}
			now = now.Add(time.Millisecond)
			if n, _ := th.Budget(now); n > 0 {
				n = min(n, 498*rnd.IntN(4))
				th.Sent(n)
				buffered += n
				a, err := d.Received(now, n, buffered)
				if err != nil {
					t.Fatal(err)
				}
				tell(a)
			}
			n := min(buffered, rate)
			buffered -= n
			tell(d.Drained(now, n, buffered))
			if buffered > 3<<20 {
				t.Fatal("the buffer grows without bound")
			}
		}
		if th.off && buffered == 0 {
			t.Fatal("stopped for ever")
		}
		if xoffs > xons+1 {
			t.Fatalf("%d XOFFs, %d XONs", xoffs, xons)
		}
	}
}

func TestThrottleAdvisory(t *testing.T) {
	p := DefaultParams()
	th := NewThrottle(&p, false)
	for range 1000 {
		th.Sent(488)
	}
	// XOFF and the XON that ends it do not count as advisory.
	for range 4 {
		if th.XOFF() != nil || th.XON(epoch, 0) != nil {
			t.Fatal("XOFF and XON")
		}
	}
	for range 4 {
		if err := th.XON(epoch, 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := th.XON(epoch, 7); !fault.Is(err, fault.Protocol) {
		t.Error("too many advisory XONs were accepted")
	}
	if err := th.XOFF(); !fault.Is(err, fault.Protocol) {
		t.Error("too many XOFFs were accepted")
	}
}
