// Package accounttest compares what accounts count for an object with what the object takes of the heap.
package accounttest

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
)

// Case is one kind of object.
type Case struct {
	Name string
	Cost int // bytes that an account counts for each
	N    int // how many are made
	// Make makes N objects, and returns what holds them, and nothing else that is worth mention.
	Make func(n int) any
}

// env makes the test binary measure one test only, so that all memory of the process is that test's.
const env = "CHIVE_TEST_COST"

// Tries is how often each kind is made. The least counts: what else happens in a process only adds.
const Tries = 3

// True checks that the cost of each case is between three quarters and five quarters of what the heap says. It measures
// in a process of its own.
func True(t *testing.T, cases ...Case) {
	t.Helper()
	if os.Getenv(env) == t.Name() {
		for i, c := range cases {
			fmt.Printf("cost %d %d\n", i, c.measure())
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), env+"="+t.Name(), "GOGC=100")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var i, held int
		if rest, ok := strings.CutPrefix(lines.Text(), "cost "); !ok {
			continue
		} else if _, err := fmt.Sscan(rest, &i, &held); err != nil || i != seen {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		seen++
		c := cases[i]
		t.Logf("%s: the account says %d bytes, %d are held", c.Name, c.Cost, held)
		if r := float64(c.Cost) / float64(held); r < 0.75 || r > 1.25 {
			t.Errorf("%s: the account says %d bytes, %d are held: %.2f", c.Name, c.Cost, held, r)
		}
	}
	if seen != len(cases) {
		t.Fatalf("%d of %d were measured:\n%s", seen, len(cases), out)
	}
}

// measure returns the bytes of one object.
func (c Case) measure() int64 {
	least := int64(math.MaxInt64)
	for range Tries {
		before := live()
		held := c.Make(c.N)
		least = min(least, live()-before)
		runtime.KeepAlive(held)
	}
	return least / int64(c.N)
}

// live returns the bytes of live objects and stacks.
func live() int64 {
	runtime.GC()
	runtime.GC() // the first collection has emptied the pools
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() + s[1].Value.Uint64())
}
