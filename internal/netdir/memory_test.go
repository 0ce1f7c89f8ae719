package netdir_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// held returns the bytes that f leaves in memory.
func held(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// Microdescriptors that nobody asked for leave nothing behind: a cache may send as many as
// it likes.
func TestUnwantedMicrodescs(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 3, ValidAfter: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var l netdir.Loader
	d, _, err := l.Consensus(n.Consensus, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := l.Add(d)
	const key = "onion-key\nntor-onion-key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
	size := 0
	got := held(func() {
		for i := range 400 {
			text := key + fmt.Sprintf("family-ids a%d", i) + strings.Repeat(" x", 20_000) + "\n"
			size += len(text)
			if err := a.Parse([]byte(text), nil); err == nil {
				continue
			}
			text = key + fmt.Sprintf("family nick%d", i) + strings.Repeat(" $"+strings.Repeat("A", 40), 2000) + "\n"
			size += len(text)
			if err := a.Parse([]byte(text), nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	if got > int64(size)/10 {
		t.Errorf("%d bytes of %d stay", got, size)
	}
	if err := a.Parse(n.Microdescs, nil); err != nil || a.Missing() > 0 {
		t.Errorf("%v: %d are missing", err, a.Missing())
	}
	runtime.KeepAlive(&l)
}
