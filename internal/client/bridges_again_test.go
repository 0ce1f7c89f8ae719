package client

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// knocks are when each bridge was dialled, which is dead.
type knocks struct {
	mu sync.Mutex
	at map[netip.AddrPort][]time.Time
}

func (k *knocks) dial(_ context.Context, a netip.AddrPort) (net.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at[a] = append(k.at[a], time.Now())
	return nil, errors.New("refused by the test")
}

// take returns the seconds from each knock at a bridge to the next, and forgets them but for the last.
func (k *knocks) take(t *testing.T, a netip.AddrPort) (gaps []int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.at[a]
	for i := 1; i < len(at); i++ {
		d := at[i].Sub(at[i-1])
		if d%time.Second != 0 {
			t.Errorf("%v: %v from one attempt to the next", a, d)
		}
		gaps = append(gaps, int(d/time.Second))
	}
	if len(at) > 1 {
		k.at[a] = at[len(at)-1:]
	}
	return gaps
}

var (
	deadBridge  = netip.MustParseAddrPort("192.0.2.1:443")
	otherBridge = netip.MustParseAddrPort("192.0.2.2:443")
)

// deadBridges runs a client of two bridges that are dead, by a clock of the test's own.
func deadBridges(t *testing.T, cfg Config, run func(*testing.T, *Client, *knocks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &knocks{at: map[netip.AddrPort][]time.Time{}}
		cfg.Network, cfg.Dial = netdir.Public(), k.dial
		cfg.Bridges = bridgeLines(t, deadBridge.String()+" "+strings.Repeat("AB", 20), otherBridge.String()+" "+strings.Repeat("CD", 20))
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		run(t, c, k)
	})
}

// after lets time pass.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

// grows reports whether pauses are those of C tor's clients: each is random, up to thrice the one before, and they begin with a second.
func grows(gaps []int) bool {
	last := 0
	for _, g := range gaps {
		if g < 1 || g >= max(3*last, 2) {
			return false
		}
		last = g
	}
	return true
}

// TestDeadBridgeAgain: a bridge that does not answer is tried again when C tor's client tries it, whatever other bridges do, and soon
// when somebody wants to use the client.
func TestDeadBridgeAgain(t *testing.T) {
	deadBridges(t, Config{}, func(t *testing.T, c *Client, k *knocks) {
		began := time.Now()
		after(t, time.Hour)
		first, other := k.take(t, deadBridge), k.take(t, otherBridge)
		if len(first) < 5 || !grows(first) || !grows(other) {
			t.Errorf("pauses %v and %v", first, other)
		}
		if slices.Equal(first, other) {
			t.Errorf("both bridges were asked at the same times: %v", first)
		}
		k.mu.Lock()
		if asked := k.at[deadBridge][0]; len(first) > 0 && asked.Before(began.Add(5*time.Second)) {
			t.Errorf("it was asked last at %v", asked)
		}
		k.mu.Unlock()
		// A client that was out of reach for days is back at once when it is used.
		after(t, 2*24*time.Hour)
		k.take(t, deadBridge)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		wanted := time.Now()
		if _, err := c.Dial(ctx, Request{Host: "example.com", Port: 443}); err == nil {
			t.Error("it has a stream")
		}
		gaps := k.take(t, deadBridge)
		k.mu.Lock()
		last := k.at[deadBridge][0]
		k.mu.Unlock()
		if len(gaps) < 3 || !grows(gaps[1:]) || last.Sub(wanted) > 10*time.Second {
			t.Errorf("pauses after it was wanted: %v", gaps)
		}
		// So it is when the settings are read again.
		after(t, 24*time.Hour)
		k.take(t, deadBridge)
		c.Reload(*c.live.Load())
		after(t, 10*time.Second)
		if gaps := k.take(t, deadBridge); len(gaps) < 3 || !grows(gaps[1:]) {
			t.Errorf("pauses after a reload: %v", gaps)
		}
	})
}

// TestDeadBridgeFast: a client that is quick tries again within a minute.
func TestDeadBridgeFast(t *testing.T) {
	deadBridges(t, Config{Fast: true}, func(t *testing.T, _ *Client, k *knocks) {
		after(t, 5*time.Minute)
		want := []int{1, 2, 4, 8, 16, 32, 60, 60, 60}
		if gaps := k.take(t, deadBridge); !slices.Equal(gaps, want) {
			t.Errorf("pauses %v, want %v", gaps, want)
		}
	})
}

// TestDeadBridgeDormant: a client that is dormant asks no bridge.
func TestDeadBridgeDormant(t *testing.T) {
	deadBridges(t, Config{Rest: true}, func(t *testing.T, c *Client, k *knocks) {
		after(t, time.Hour)
		if n := len(k.at[deadBridge]); n != 0 {
			t.Errorf("%d times at the start", n)
		}
		c.Wake()
		after(t, time.Minute)
		c.Rest()
		if gaps := k.take(t, deadBridge); len(gaps) < 3 || !grows(gaps) {
			t.Errorf("awake: %v", gaps)
		}
		after(t, 24*time.Hour)
		if gaps := k.take(t, deadBridge); len(gaps) != 0 {
			t.Errorf("dormant again: %v", gaps)
		}
	})
}

// TestTurns: the timetable of one bridge.
func TestTurns(t *testing.T) {
	at := time.Now()
	var u turns
	if !u.due(at) {
		t.Fatal("the first turn is not at once")
	}
	// It counts what was due while a request was under way, up to that one's bound.
	u.begin(at)
	u.failed(at, at.Add(900*time.Millisecond))
	if u.n != 1 || u.next != at.Add(time.Second) {
		t.Errorf("after an attempt that was short: %+v", u)
	}
	u.failed(at, at.Add(20*time.Second))
	if u.n < 3 || !u.next.After(at.Add(20*time.Second)) || u.due(u.next.Add(-time.Second)) || !u.due(u.next.Add(-time.Millisecond)) {
		t.Errorf("after an attempt that was long: %+v", u)
	}
	var slept turns
	slept.begin(at)
	slept.failed(at, at.Add(24*time.Hour))
	if slept.pause > 3*bridgeTimeout {
		t.Errorf("after a machine was suspended: %+v", slept)
	}
	// The clock that is right says when it is due: the other may have been set back, or stood still.
	wall := turns{next: at.Add(time.Hour).Round(0)}
	if !wall.due(at.Add(time.Hour)) || wall.due(at) {
		t.Error("the wall clock is not asked")
	}
	// The pauses end at some bound, and after so many attempts they stay as they are.
	u = turns{pause: math.MaxInt32 * time.Second}
	u.begin(at)
	if u.pause < time.Second || u.pause > math.MaxInt32*time.Second {
		t.Errorf("the longest pause is followed by %v", u.pause)
	}
	u = turns{pause: 5 * time.Second, n: maxTurns}
	for range 10 {
		u.begin(at)
		if u.pause != 5*time.Second {
			t.Fatalf("after many attempts: %+v", u)
		}
	}
	u.answered(at)
	if u.next != at.Add(bridgeRefresh) {
		t.Errorf("after an answer: %+v", u)
	}
	u.begin(u.next)
	if u.pause != time.Second {
		t.Errorf("an answer does not end the pauses: %+v", u)
	}
}
