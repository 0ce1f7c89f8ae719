package panics_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

//go:noinline
func index(b []byte, i int) byte { return b[i] }

func TestContain(t *testing.T) {
	panicstest.Expect(t, 2)
	var log panicstest.Log
	var mu sync.Mutex
	for range 2 {
		var cause error
		panics.Contain(log.Logger(), func(err error) {
			mu.Lock() // the goroutine's own deferred unlock came first
			defer mu.Unlock()
			cause = err
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			index(nil, 7)
		})()
		if !fault.Is(cause, fault.Local) || !strings.Contains(cause.Error(), "panics_test.index") {
			t.Fatalf("the owner was closed with %v", cause)
		}
	}
	lines := log.Panics()
	if len(lines) != 1 {
		t.Fatalf("one place was logged %d times: %q", len(lines), lines)
	}
	for _, want := range []string{"index out of range [7] with length 0", "panics_test.index (panics_test.go:", "TestContain"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("the log does not say %q: %s", want, lines[0])
		}
	}
	if panics.Err() == nil {
		t.Error("the end of the process would not tell")
	}
}

func TestNoPanicCostsNothing(t *testing.T) {
	panicstest.Expect(t, 0)
	ran := false
	f := func() { ran = true }
	closer := func(error) { t.Error("closed without a panic") }
	if n := testing.AllocsPerRun(10, func() {
		defer panics.Recover(nil, closer)
		f()
	}); n != 0 || !ran {
		t.Fatalf("%v allocations", n)
	}
}

// TestSecretsStay panics with what a peer or a library might have put into the
// value: only its type may be told.
func TestSecretsStay(t *testing.T) {
	panicstest.Expect(t, 2)
	var log panicstest.Log
	secret := netip.MustParseAddr("192.0.2.77")
	panics.Contain(log.Logger(), nil, func() { panic(fmt.Errorf("dial %v", secret)) })()
	panics.Contain(log.Logger(), nil, func() { panic(secret) })()
	lines := strings.Join(log.Panics(), "")
	if strings.Contains(lines, "192.0.2") || !strings.Contains(lines, "netip.Addr") || strings.Count(lines, "\n") != 2 {
		t.Fatalf("logged: %s", lines)
	}
}

func TestOwnString(t *testing.T) {
	panicstest.Expect(t, 1)
	var log panicstest.Log
	panics.Contain(log.Logger(), nil, func() { panic("cell: a body that does not fit") })()
	if lines := log.Panics(); len(lines) != 1 || !strings.Contains(lines[0], "a body that does not fit") {
		t.Fatalf("logged: %q", lines)
	}
}

func TestKeep(t *testing.T) {
	panicstest.Expect(t, 4)
	for _, c := range []struct{ panics, rests, want int }{{0, 9, 1}, {2, 9, 3}, {2, 1, 2}} {
		ran, rested := 0, 0
		panics.Keep(nil, func() bool { rested++; return rested <= c.rests }, func() {
			if ran++; ran <= c.panics {
				panic("keep")
			}
		})()
		if ran != c.want {
			t.Errorf("%+v: ran %d times", c, ran)
		}
	}
}

// TestClosingPanics: the process outlives a closing function's own mistake.
func TestClosingPanics(t *testing.T) {
	panicstest.Expect(t, 2)
	var log panicstest.Log
	panics.Contain(log.Logger(), func(error) { closing(nil) }, func() { panic(errors.New("x")) })()
	lines := log.Panics()
	if len(lines) != 2 || !strings.Contains(lines[1], "panics_test.closing") {
		t.Fatalf("logged: %q", lines)
	}
}

//go:noinline
func closing(m map[string]int) { m["x"] = 1 }

// TestRaised: in a test a panic goes on, and ends it. The child is this test
// program.
func TestRaised(t *testing.T) {
	if os.Getenv("CHIVE_PANIC") != "" {
		done := make(chan struct{})
		go panics.Contain(nil, func(error) { close(done) }, func() { panic("a mistake") })()
		<-done
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestRaised$")
	cmd.Env = append(os.Environ(), "CHIVE_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: a mistake") {
		t.Fatalf("%v: %s", err, out)
	}
}
