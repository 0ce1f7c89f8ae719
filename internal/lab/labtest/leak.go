package labtest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// leakTime is how long goroutines may take to end after their owner has ended.
const leakTime = 30 * time.Second

// NoLeaks fails the test if, at its end, there are goroutines of this module
// that did not exist when NoLeaks was called. No other test may run at the same
// time.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := map[string]bool{}
	for id := range ours() {
		before[id] = true
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(leakTime)
		for {
			left := ours()
			for id := range left {
				if before[id] {
					delete(left, id)
				}
			}
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				for _, stack := range left {
					t.Errorf("a goroutine is left:\n%s", stack)
				}
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	})
}

// ours returns the stacks of goroutines with code of this module, except the
// calling one, by their headings' numbers.
func ours() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	out := map[string]string{}
	for i, g := range strings.Split(string(buf), "\n\n") {
		head, stack, _ := strings.Cut(g, "\n")
		if i == 0 || !strings.Contains(stack, "github.com/chivenet/chive") || strings.Contains(stack, "testing.(*T).Run(") {
			continue
		}
		f := strings.Fields(head) // goroutine 12 [select]:
		if len(f) > 1 {
			out[f[1]] = g
		}
	}
	return out
}
