//go:build linux

package authority

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// roundEnv makes the test binary an authority only, so that all memory of the process is its.
const roundEnv = "CHIVE_TEST_ROUND"

// The public network's size.
const (
	publicRelays      = 9000
	publicAuthorities = 9
)

// roundUse is what a part of a round took.
type roundUse struct {
	t        *testing.T
	whole    time.Duration
	residing int64
	live     int64
}

// live returns the bytes of live objects.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// statusKB returns a figure of the process's own in /proc, in bytes.
func statusKB(t testing.TB, name string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n"+name+":")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

func (u *roundUse) run(what string, f func()) {
	before := cpuTime(u.t)
	f()
	took := cpuTime(u.t) - before
	u.whole += took
	fmt.Printf("round %s: %.2f s, %d MB\n", what, took.Seconds(), statusKB(u.t, "VmRSS")/1e6)
}

// TestRoundProcess is that authority: it takes the others' votes from files, as if they came from the network.
func TestRoundProcess(t *testing.T) {
	dir := os.Getenv(roundEnv)
	if dir == "" {
		t.Skip("a part of TestRoundOfPublicSize")
	}
	clock := time.Now()
	all, _ := inMemory(t, publicAuthorities, keyPool(t, 2048, publicAuthorities), keyPool(t, 2048, publicAuthorities), func(_ int, c *Config) { c.Now = func() time.Time { return clock } })
	a := all[0]
	routers := publicRouters(t, publicRelays)
	var at timing
	vote := func(i int) *netdoc.Vote {
		v, err := all[i].makeVote(at)
		if err != nil {
			t.Fatal(err)
		}
		v.Routers = routers
		if v, err = v.Sign(rand.Reader, all[i].cfg.Keys.Signing); err != nil {
			t.Fatal(err)
		}
		return v
	}
	name := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	u := &roundUse{t: t}
	sizes := 0
	for round := range 2 {
		at = a.startRound()
		clock = at.vote
		u.whole = 0
		for i := range all {
			if err := os.WriteFile(name(i), vote(i).Text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil { // begin with the peak anew
			t.Fatal(err)
		}
		if round == 0 {
			u.residing, u.live = statusKB(t, "VmRSS"), live()
		}
		u.run("votes", func() {
			for i := range all {
				b, err := os.ReadFile(name(i))
				if err != nil {
					t.Fatal(err)
				}
				if res := a.postVotes(b); res.Status != 200 {
					t.Fatal(res)
				}
			}
		})
		u.run("compute", func() {
			if _, err := a.compute(); err != nil {
				t.Fatal(err)
			}
		})
		// The others' signatures: making them is their work.
		copies := []*netdoc.Consensus{new(netdoc.Consensus), new(netdoc.Consensus)}
		for i, c := range a.round.pending {
			*copies[i] = *c
			copies[i].Signatures = nil
			for _, x := range all[1:] {
				if err := copies[i].Sign(rand.Reader, x.me, x.cfg.Keys.Signing); err != nil {
					t.Fatal(err)
				}
			}
		}
		d, err := netdoc.ParseDetachedSignatures(netdoc.Detach(copies[0], copies[1]).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		copies = nil
		u.run("signatures", func() {
			if n, err := a.addSignatures(d, netip.Addr{}); err != nil || n != 2*(publicAuthorities-1) {
				t.Fatal(n, err)
			}
		})
		clock = at.start
		u.run("publish", func() {
			if got := len(a.publishSigned(at)); got != 2 {
				t.Fatal(got)
			}
		})
		fmt.Printf("round %d: %.2f s, the most %d MB more than before\n", round, u.whole.Seconds(), (statusKB(t, "VmHWM")-u.residing)/1e6)
		sizes = 0
		for _, v := range a.round.votes {
			sizes += len(v.Text)
		}
		fmt.Printf("round %d: votes of %d MB, %d MB more are live\n", round, sizes/1e6, (live()-u.live)/1e6)
	}
	// The texts of one round, the last one's compressed, both consensuses parsed and as text.
	if held := live() - u.live; held > int64(sizes)*2 {
		t.Errorf("%d bytes are live, with votes of %d", held, sizes)
	}
	runtime.KeepAlive(routers)
}

// TestRoundOfPublicSize measures a round of the public network's size, and checks what is held after it.
func TestRoundOfPublicSize(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures this process's memory by /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestRoundProcess$")
	cmd.Env = append(os.Environ(), roundEnv+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
