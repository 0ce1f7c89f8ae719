package guard

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
)

// circuits builds n circuits through m's first guard; of each hundred, good
// are closed by us and the rest collapse.
func circuits(t *testing.T, m *Manager, n, good int) *sampled {
	t.Helper()
	var g *sampled
	for i := range n {
		u := pick(t, m, epoch)
		g = u.g
		u.Extended()
		u.Succeeded(epoch)
		u.Closed(epoch, i*37%100 < good)
	}
	return g
}

func logged(t *testing.T, d *fakeDir) (*Manager, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg := config(1)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	m, err := New(cfg, &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(d, epoch)
	return m, &log
}

func TestCircuitRates(t *testing.T) {
	for _, v := range []struct {
		good int
		says string
	}{{95, ""}, {65, "more circuits than usual"}, {40, "very many circuits"}, {10, "extreme number of circuits"}} {
		m, log := logged(t, network(100))
		circuits(t, m, 150, v.good)
		if strings.Contains(log.String(), "circuits") {
			t.Fatalf("judged before pb_mincircs: %s", log)
		}
		circuits(t, m, 150, v.good)
		if got := log.String(); (v.says == "") == strings.Contains(got, "circuits") || !strings.Contains(got, v.says) {
			t.Errorf("%d %%: logged %q", v.good, got)
		}
		if n := strings.Count(log.String(), "extreme number"); n > 1 {
			t.Errorf("said %d times", n)
		}
		if m.cur.primary[0].bias.Disabled {
			t.Error("dropped though pb_dropguards is 0")
		}
		for _, line := range strings.Split(log.String(), "\n") {
			if strings.Contains(line, m.cur.primary[0].id.RSA.String()) {
				t.Error("the guard's whole fingerprint is in the log")
			}
		}
	}
}

func TestDropGuard(t *testing.T) {
	d := network(100)
	d.params["pb_dropguards"] = 1
	m, log := logged(t, d)
	first := m.cur.primary[0]
	circuits(t, m, 152, 10)
	if !first.bias.Disabled || first.filtered || first.primary || !strings.Contains(log.String(), "no longer used") {
		t.Fatalf("not dropped: %s", log)
	}
	if pick(t, m, epoch).g == first {
		t.Fatal("used after it was dropped")
	}
}

func TestScaling(t *testing.T) {
	m, _ := logged(t, network(100))
	open := pick(t, m, epoch)
	open.Extended()
	open.Succeeded(epoch)
	g := circuits(t, m, 299, 100)
	want(t, "attempts", g.bias.CircAttempts, 300)
	circuits(t, m, 1, 100) // the 301st: two are open, 299 are halved
	want(t, "attempts after scaling", g.bias.CircAttempts, 299.0/2+2)
	if r := (g.bias.ClosedWell + 1) / g.bias.CircAttempts; math.Abs(r-1) > 0.01 {
		t.Fatalf("rate %f after scaling", r)
	}
	if g.bias.CircAttempts < g.bias.CircSuccesses {
		t.Fatal("more successes than attempts")
	}
	open.Closed(epoch, true)
}

func TestUseRates(t *testing.T) {
	for _, v := range []struct {
		answered int // of ten
		says     string
	}{{10, ""}, {7, "more uses than usual"}, {3, "extreme number of uses"}} {
		m, log := logged(t, network(100))
		for i := range 40 {
			u := pick(t, m, epoch)
			u.Extended()
			u.Succeeded(epoch)
			u.StreamTried()
			if i*7%10 < v.answered {
				u.StreamAnswered()
			}
			u.Closed(epoch, true)
		}
		if got := log.String(); (v.says == "") == strings.Contains(got, "uses") || !strings.Contains(got, v.says) {
			t.Errorf("%d of 10: logged %q", v.answered, got)
		}
		b := m.cur.primary[0].bias
		want(t, "uses", b.UseSuccesses, v.answered*4)
		want(t, "unusable", b.Unusable, 40-v.answered*4)
	}
}

// TestDoubtful: only the end of a circuit that was built, and whose streams were all in vain, counts against its guard.
func TestDoubtful(t *testing.T) {
	m := start(t, network(100))
	for i := range 16 {
		built, done, tried, answered := i&1 > 0, i&2 > 0, i&4 > 0, i&8 > 0
		u := pick(t, m, epoch)
		if built {
			u.Extended()
		}
		if done {
			u.Succeeded(epoch)
		}
		if tried {
			u.StreamTried()
		}
		if answered {
			u.StreamAnswered()
		}
		if got := u.Doubtful(); got != (built && done && tried && !answered) {
			t.Errorf("built %v, done %v, tried %v, answered %v: %v", built, done, tried, answered, got)
		}
		if !done {
			u.Cancelled(epoch)
			continue
		}
		u.Closed(epoch, true)
	}
	held := make(chan bool)
	u := pick(t, m, epoch)
	m.mu.Lock()
	go func() {
		u.Doubtful()
		held <- !m.mu.TryLock()
	}()
	select {
	case <-held:
		t.Error("it does not wait for the lock")
	default:
	}
	m.mu.Unlock()
	if <-held {
		t.Error("it keeps the lock")
	}
}

func TestCountsOfOneCircuit(t *testing.T) {
	m := start(t, network(100))
	u := pickFor(t, m, Request{Purpose: Directory1Hop}, epoch)
	u.Succeeded(epoch)
	u.StreamTried()
	u.Closed(epoch, false)
	want(t, "a circuit of one hop counts for nothing", u.g.bias, bias{})

	u = pick(t, m, epoch)
	u.Extended()
	u.Extended()
	u.TimedOut()
	u.TimedOut()
	u.Failed(epoch, Beyond)
	u.StreamTried()
	want(t, "a circuit that timed out", u.g.bias, bias{CircAttempts: 1, Timeouts: 1})

	u = pick(t, m, epoch)
	u.g.bias = bias{}
	u.Extended()
	u.Succeeded(epoch)
	u.StreamTried()
	u.StreamAnswered()
	u.StreamFailed()
	u.Closed(epoch, false)
	want(t, "a circuit whose last stream failed", u.g.bias, bias{
		CircAttempts: 1, CircSuccesses: 1, UseAttempts: 1, Unusable: 1,
	})

	u = pick(t, m, epoch)
	u.g.bias = bias{}
	u.Extended()
	u.Succeeded(epoch)
	u.StreamTried()
	u.StreamAnswered()
	u.Closed(epoch, false)
	want(t, "a circuit that served, and was closed by a relay", u.g.bias, bias{
		CircAttempts: 1, CircSuccesses: 1, ClosedWell: 1, UseAttempts: 1, UseSuccesses: 1,
	})

	u = pick(t, m, epoch)
	u.g.bias = bias{}
	u.Extended()
	u.Succeeded(epoch)
	u.Closed(epoch, false)
	want(t, "a circuit that collapsed", u.g.bias, bias{CircAttempts: 1, CircSuccesses: 1, Collapsed: 1})
}
