package relay_test

import (
	"testing"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/ram"
	"github.com/chivenet/chive/relay"
)

// TestMaxMemory: the bound comes from the machine's memory, unless somebody sets it, and the status says which.
func TestMaxMemory(t *testing.T) {
	byDefault, why := ram.MaxMemory(0)
	if byDefault == account.DefaultMaxMemory {
		t.Skip("this machine's memory makes the default what it is without knowing it")
	}
	cfg := relay.Config{Network: silent(t), DataDir: t.TempDir(), Nickname: "r", ORPort: []string{"127.0.0.1:0"}, AssumeReachable: true}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	check := func(max uint64, why string) {
		t.Helper()
		st := r.Status()
		if st.MaxMemory != max || st.MaxMemoryWhy != why || st.MemoryBound != int64(max-max/8) || st.Memory < 0 || st.Memory > st.MemoryBound {
			t.Errorf("%d %q, a bound of %d, %d in use; not %d %q", st.MaxMemory, st.MaxMemoryWhy, st.MemoryBound, st.Memory, max, why)
		}
	}
	check(byDefault, why)
	for _, set := range []uint64{99 << 20, 0} {
		next := r.Config()
		next.MaxMemory = set
		if err := r.Reload(next); err != nil {
			t.Fatal(err)
		}
		check(ram.MaxMemory(set))
	}
}
