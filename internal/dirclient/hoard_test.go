package dirclient

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A consensus that is refused leaves nothing behind: a cache may send what it likes, and it
// is read before anybody knows whether authorities signed it.
func TestRefusedConsensusLeavesNothing(t *testing.T) {
	n := small(t, 1000)
	c := New(Config{Network: n.Network, Now: func() time.Time { return n.ValidAfter }})
	c.addCerts(n.Certs, n.ValidAfter)
	if changed, err := c.takeConsensus(t.Context(), &response{body: n.Consensus}); err != nil || !changed {
		t.Fatal(changed, err)
	}
	size := 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 5 {
		var doc []byte
		relay := 0
		for line := range bytes.Lines(n.Consensus) {
			if bytes.HasPrefix(line, []byte("v ")) {
				relay++
				line = fmt.Appendf(nil, "v %d.%d%s\n", i, relay, strings.Repeat("x", 5000))
			}
			doc = append(doc, line...)
		}
		size += len(doc)
		if _, err := c.takeConsensus(t.Context(), &response{body: doc}); err == nil {
			t.Fatal("it was taken")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > int64(size)/10 {
		t.Errorf("%d bytes of %d stay", got, size)
	}
	runtime.KeepAlive(c)
}
