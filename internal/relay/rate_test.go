package relay

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// In any sequence of takes, no period gets more than the burst plus the rate
// times its length.
func TestAllowance(t *testing.T) {
	now := time.Unix(1e9, 0)
	var a allowance
	a.set(1000, 5000, now)
	if d := a.take(5000, now); d != 0 {
		t.Error("the burst waits", d)
	}
	if d := a.take(500, now); d != 500*time.Millisecond {
		t.Error(d)
	}
	if d := a.take(500, now); d != time.Second {
		t.Error("the next one waits for the one before", d)
	}
	if d := a.take(1, now.Add(time.Hour)); d != 0 {
		t.Error(d)
	}
	if d := a.take(5000, now.Add(time.Hour)); d != time.Millisecond {
		t.Error("more than a burst was kept", d)
	}
	a.set(0, 0, now)
	if d := a.take(1<<30, now); d != 0 {
		t.Error("no limit waits", d)
	}
}

// All links together do not exceed the rate, in each direction.
func TestLimitedLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, each, links = 100_000, 300_000, 3
		var l limits
		l.set(rate, 0, time.Now())
		began := time.Now()
		done := make(chan error, 2*links)
		for range links {
			a, b := net.Pipe()
			in, out := l.limit(b), l.limit(a)
			go func() {
				defer out.Close()
				for range each / 1000 {
					if err := out.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
						done <- err
						return
					}
					if _, err := out.Write(make([]byte, 1000)); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			go func() {
				n, err := io.Copy(io.Discard, in)
				if err == nil && n != each {
					err = io.ErrUnexpectedEOF
				}
				done <- err
			}()
		}
		for range 2 * links {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took, want := time.Since(began), time.Duration(links*each-rate)*time.Second/rate; took < want || took > want+time.Second {
			t.Errorf("%v, not %v", took, want)
		}
	})
}

// Closing a link ends its wait for the limits at once.
func TestLimitedLinkCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limits
		l.set(minRate, 0, time.Now())
		a, b := net.Pipe()
		defer b.Close()
		c := l.limit(a)
		l.write.take(100*minRate, time.Now())
		time.AfterFunc(time.Second, func() { c.Close() })
		began := time.Now()
		if _, err := c.Write([]byte("x")); err == nil || time.Since(began) != time.Second {
			t.Error(err, time.Since(began))
		}
	})
}

func TestNoLimitCostsNothing(t *testing.T) {
	var l limits
	l.set(0, 0, time.Now())
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if got := l.limit(a); got != a {
		t.Errorf("%T stands before the connection", got)
	}
}

func TestCheckRates(t *testing.T) {
	for want, c := range map[string]*Config{
		"BandwidthBurst: it needs a bandwidth rate": {Burst: 1 << 20}, "is the least": {Rate: 1000}, "less than the rate": {Rate: 1 << 20, Burst: 1 << 19},
		"MaxAdvertisedBandwidth: 1 bytes a second: 76800 is the least": {MaxAdvertisedBandwidth: 1},
	} {
		if err := c.checkRates(); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	c := &Config{Rate: 1 << 20, Burst: 2 << 20, MaxAdvertisedBandwidth: 1 << 19}
	if rate, burst := c.advertisedBandwidth(); c.checkRates() != nil || rate != 1<<19 || burst != 2<<20 {
		t.Error(rate, burst, c.checkRates())
	}
}

// Measurements survive a restart, and keep their age.
func TestBandwidthFile(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	var a, b bandwidth
	for i := range uint64(20) {
		a.sample(now.Add(time.Duration(i)*time.Second), i*7000, i*9000)
	}
	if err := a.save(dir, now); err != nil {
		t.Fatal(err)
	}
	if err := b.load(dir, now.Add(2*day)); err != nil || b.Observed() != 7000 || len(b.stats()) == 0 {
		t.Error(b.Observed(), string(b.stats()), err)
	}
	b = bandwidth{}
	if err := b.load(dir, now.Add(6*day)); err != nil || b.Observed() != 0 {
		t.Error(b.Observed(), err)
	}
	b = bandwidth{}
	if err := b.load(t.TempDir(), now); err != nil {
		t.Error("no file is no error", err)
	}
	for _, bad := range []string{"", "{}", `{"day":"2999-01-01T00:00:00Z"}`, `{"day":"2020-01-01T00:00:00Z","best_10s":[[18000000000000000000]]}`} {
		if err := os.WriteFile(filepath.Join(dir, bandwidthFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.load(dir, now); !fault.Is(err, fault.Local) || b.Observed() != 0 {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseBandwidth(f *testing.F) {
	f.Add([]byte(`{"day":"2020-01-01T00:00:00Z","best_10s":[[1,2],[3]],"whole_days":[[1],[2]],"present_day":[1,2]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s bandwidthState
		if parseBandwidth(text, time.Unix(2e9, 0), &s) != nil {
			return
		}
		b := bandwidth{day: s.Day, best: s.Best, total: s.Total, today: s.Today}
		b.turnLocked(time.Unix(2e9, 0))
		if slices.ContainsFunc(b.total[0], func(v int64) bool { return v < 0 }) {
			t.Error(b.total)
		}
		b.stats()
		b.Observed()
	})
}
