package lang

import (
	"runtime"
	"testing"
)

// TestSizeWithModel compares what the streaming coder adds to Size with what it takes.
func TestSizeWithModel(t *testing.T) {
	used := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first collection has emptied the pools
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, pattern := range []string{`([a-z]{1,500}[0-9A-Z]{1,500} )+`, `([^x]{1,300}x)+`} {
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		size, before := l.Size(), used()
		if _, err := l.NewEncoder(); err != nil {
			t.Fatal(err)
		}
		took, told := used()-before, l.Size()-size
		if told < took*3/4 || told > took*4/3 {
			t.Errorf("%s: the coder takes %d bytes, and Size says %d", pattern, took, told)
		}
	}
}
