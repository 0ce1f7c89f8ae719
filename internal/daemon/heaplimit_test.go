package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
)

// heapEnv makes the test binary only collect garbage, so that all memory of the process is that
// test's.
const heapEnv = "CHIVE_TEST_HEAP"

// TestCollectorHasLimits: what is live may be far above the bound; then the collector runs somewhat more often, and not
// without end. It counts collections.
func TestCollectorHasLimits(t *testing.T) {
	if os.Getenv(heapEnv) != "" {
		fillHeap(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestCollectorHasLimits$", "-test.v")
	cmd.Env = append(os.Environ(), heapEnv+"=1", "GOGC=", "GOMEMLIMIT=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, line, _ := strings.Cut(string(out), "collections ")
	var n, room, fixed int64
	if _, err := fmt.Sscan(line, &n, &room, &fixed); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d collections; room for %d kB until the next one, and %d kB with a limit that does not follow", n, room>>10, fixed>>10)
	if n == 0 || n > 2*garbage/(live/8) || room < live/10 || room > live/4 {
		t.Errorf("%d collections for %d MB of garbage with %d MB live; room for %d kB until the next one", n, garbage>>20, live>>20, room>>10)
	}
	if fixed > live/64 {
		t.Errorf("a limit that does not follow leaves %d kB, so that this test shows nothing", fixed>>10)
	}
}

const (
	live    = 192 << 20
	garbage = 384 << 20
)

var sink []byte

func fillHeap(t *testing.T) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(relayGC)
	var h heapLimit
	h.keep(32 << 20)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { h.follow(ctx) })
	var kept [][]byte
	for range live >> 20 {
		kept = append(kept, make([]byte, 1<<20))
	}
	for debug.SetMemoryLimit(-1) <= live { // until follow has seen it; otherwise the test never ends
		runtime.GC()
	}
	n := collections()
	for range garbage >> 16 {
		sink = make([]byte, 64<<10)
		runtime.Gosched() // to the collector, whatever else the machine does
	}
	n = collections() - n
	left := room()
	stop()
	wg.Wait()
	debug.SetMemoryLimit(32<<20 + ownMemory)
	fixed := room()
	runtime.KeepAlive(kept)

	h.keep(1 << 30) // an operator raises the bound
	if got := debug.SetMemoryLimit(-1); got != 1<<30+ownMemory {
		t.Errorf("the limit is %d after a reload", got)
	}
	kept = nil
	runtime.GC()
	h.keep(64 << 20)
	if got := debug.SetMemoryLimit(-1); got != 64<<20+ownMemory {
		t.Errorf("the limit is %d when what was live has gone", got)
	}
	fmt.Println("collections", n, left, fixed)
}

// collections returns how often the collector has run.
func collections() int64 { return sample("/gc/cycles/total:gc-cycles") }

// room returns how many bytes may be allocated before the collector runs again.
func room() int64 {
	runtime.GC()
	return sample("/gc/heap/goal:bytes") - sample("/gc/heap/live:bytes")
}

func sample(name string) int64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
