package ram

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/account"
)

// TestDefault: C tor's rule (compute_real_max_mem_in_queues), but for its least value.
func TestDefault(t *testing.T) {
	const mb, gb = 1 << 20, 1 << 30
	for _, c := range []struct{ ram, want64, want32 uint64 }{
		{0, account.DefaultMaxMemory, account.DefaultMaxMemory},
		{30 * mb, 32 * mb, 32 * mb},
		{128 * mb, 96 * mb, 96 * mb},
		{1 * gb, 768 * mb, 768 * mb},
		{4 * gb, 3 * gb, 2 * gb},
		{8*gb - 4, 6*gb - 3, 2 * gb},
		{8 * gb, 3435973836, 2 * gb},
		{16 * gb, 6871947672, 2 * gb},
		{20 * gb, 8 * gb, 2 * gb},
		{1024 * gb, 8 * gb, 2 * gb},
	} {
		if got := (Memory{Bytes: c.ram}).defaultOf(64); got != c.want64 {
			t.Errorf("of %d bytes: %d, not %d", c.ram, got, c.want64)
		}
		if got := (Memory{Bytes: c.ram}).defaultOf(32); got != c.want32 {
			t.Errorf("of %d bytes, with 32 bits: %d, not %d", c.ram, got, c.want32)
		}
	}
}

// TestLeast: the container's bound counts if it is below the machine's memory, and what cannot be read does not.
func TestLeast(t *testing.T) {
	is := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	no := func() (uint64, error) { return 0, errors.New("no") }
	for name, c := range map[string]struct {
		system, container func() (uint64, error)
		want              Memory
		why               string
	}{
		"machine":             {is(4 << 30), no, Memory{4 << 30, false}, "by the machine's memory of 4096 MiB"},
		"container":           {is(4 << 30), is(1 << 30), Memory{1 << 30, true}, "by the container's memory of 1024 MiB"},
		"a generous one":      {is(4 << 30), is(5 << 30), Memory{4 << 30, false}, "by the machine's memory of 4096 MiB"},
		"only the container":  {no, is(1 << 30), Memory{1 << 30, true}, "by the container's memory of 1024 MiB"},
		"nothing":             {no, no, Memory{}, "the default, because the machine's memory is not known"},
		"a bound of no bytes": {is(4 << 30), is(0), Memory{4 << 30, false}, "by the machine's memory of 4096 MiB"},
	} {
		got := least(c.system, c.container)
		if got != c.want || got.why() != c.why {
			t.Errorf("%s: %+v, %q", name, got, got.why())
		}
	}
}

// TestMaxMemory: what the operator has set wins, and otherwise this machine's memory says.
func TestMaxMemory(t *testing.T) {
	if n, why := MaxMemory(99 << 20); n != 99<<20 || why != "as set" {
		t.Errorf("%d %s", n, why)
	}
	n, why := MaxMemory(0)
	if n < account.LeastMemory || n > maxDefault {
		t.Errorf("%d bytes", n)
	}
	if runtime.GOOS != "linux" {
		return
	}
	total := memTotal(t)
	if m := find(); m.Bytes == 0 || m.Bytes > total || !strings.Contains(why, "memory of") {
		t.Errorf("%+v, and the kernel says %d: %s", m, total, why)
	} else if !m.Container && m.Bytes < total/2 {
		t.Errorf("%d of %d bytes", m.Bytes, total)
	}
}

// memTotal is what the kernel says of the machine's memory, in bytes, rounded up.
func memTotal(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", "meminfo"))
	if err != nil {
		t.Skip(err)
	}
	var kb uint64
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			for _, c := range strings.TrimSpace(rest) {
				if c < '0' || c > '9' {
					break
				}
				kb = kb*10 + uint64(c-'0')
			}
		}
	}
	return (kb + 1) << 10
}
