package quantity

import (
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

func TestBytes(t *testing.T) {
	for s, want := range map[string]uint64{
		"0": 0, "7": 7, "0x10": 16, "1048576": 1 << 20, "1 byte": 1, "2 Bytes": 2, "8 bits": 1, "1k": 1 << 10, "1 KB": 1 << 10, "1KiB": 1 << 10,
		"512MB": 512 << 20, "512MiB": 512 << 20, "10 MBytes": 10 << 20, "1.5 GB": 3 << 29, "8 kbits": 1 << 10, "1 TByte": 1 << 40, " 5 mb ": 5 << 20,
	} {
		if got, err := Bytes(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-1", "MB", "1 XB", "1 2", "1e3", "1..5", "9999999 TB", "4611686018427387904", "inf", "NaN", "0x1MB"} {
		if n, err := Bytes(s); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
}

func TestDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "-1s": -time.Second, "30 seconds": 30 * time.Second, "2 hours": 2 * time.Hour,
		"1 day": 24 * time.Hour, "100 msec": 100 * time.Millisecond, "1.5 hours": 90 * time.Minute, "10min": 10 * time.Minute,
	} {
		if got, err := Duration(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	if _, err := Duration("30"); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "30s") {
		t.Errorf("a number alone: %v", err)
	}
	for _, s := range []string{"", "soon", "1 fortnight", "99999999999 weeks", "s"} {
		if d, err := Duration(s); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	}
}

// TestInterval: in C tor's files a number alone counts seconds.
func TestInterval(t *testing.T) {
	for s, want := range map[string]time.Duration{"30": 30 * time.Second, "0.5 minutes": 30 * time.Second, "250 msec": 250 * time.Millisecond, "1.9999999": time.Second, "0": 0, "1 week": 7 * 24 * time.Hour, "1 month": 2629728 * time.Second, "5 hrs": 5 * time.Hour} {
		if got, err := Interval(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-5", "1m30s", "3 blinks"} {
		if d, err := Interval(s); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	}
}

// TestIntervalBounds: the longest times, and those that are too long for a count of seconds or of
// nanoseconds.
func TestIntervalBounds(t *testing.T) {
	for s, want := range map[string]time.Duration{"2147483647": (1<<31 - 1) * time.Second, "1753 months": 1753 * 2629728 * time.Second, "2147483647 msec": (1<<31 - 1) * time.Millisecond} {
		if got, err := Interval(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"2147483648", "2147483648 msec", "1754 months"} {
		if d, err := Interval(s); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	}
	if _, err := Duration("1.2.3"); err == nil || strings.Contains(err.Error(), "no unit") {
		t.Errorf("no number: %v", err)
	}
}

func FuzzQuantities(f *testing.F) {
	for _, s := range []string{"1 MB", "30s", "2 hours", "0x", "..", "1e400", "9223372036854775807 week"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Bytes(s); err == nil && n >= 1<<62 {
			t.Errorf("%q: %d", s, n)
		}
		if d, err := Interval(s); err == nil && d < 0 {
			t.Errorf("%q: %v", s, d)
		}
		Duration(s)
	})
}
