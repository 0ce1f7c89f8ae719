package netdir_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// large is a network of the public one's size.
var large = sync.OnceValues(func() (*dirgen.Net, error) { return dirgen.New(dirgen.Options{Relays: 9000, Authorities: 9}) })

func largeNet(b testing.TB) *dirgen.Net {
	b.Helper()
	n, err := large()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkLoad9000 parses the documents of 9,000 relays; heap-MB is what
// the directory holds on to.
func BenchmarkLoad9000(b *testing.B) {
	n := largeNet(b)
	var l *netdir.Loader
	var d *netdir.Directory
	before := heap()
	b.ReportAllocs()
	for b.Loop() {
		l = new(netdir.Loader)
		c, _, err := l.Consensus(n.Consensus, nil)
		if err != nil {
			b.Fatal(err)
		}
		if d, _, err = l.Microdescs(c, n.Microdescs, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(heap()-before)/1e6, "heap-MB")
	b.SetBytes(int64(len(n.Consensus) + len(n.Microdescs)))
	runtime.KeepAlive(l)
	runtime.KeepAlive(d)
}

// BenchmarkConsensus9000 parses and hashes the consensus alone.
func BenchmarkConsensus9000(b *testing.B) {
	n := largeNet(b)
	b.ReportAllocs()
	b.SetBytes(int64(len(n.Consensus)))
	for b.Loop() {
		if _, err := netdoc.ParseConsensus(n.Consensus, nil, func(*netdoc.RouterStatus) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPick9000(b *testing.B) {
	d, err := largeNet(b).Directory()
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	ok := func(r netdir.Relay) bool {
		return r.Has(netdir.FlagExit|netdir.FlagFast) && r.Policy4().AllowsPort(443)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, found := d.Pick(rng, netdir.PosExit, ok); !found {
			b.Fatal("none")
		}
	}
}

// TestHeap9000 holds the directory of 9,000 relays to its budget.
func TestHeap9000(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 9,000 relays")
	}
	n := largeNet(t)
	before := heap()
	d, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	got := float64(heap()-before) / 1e6
	t.Logf("%d relays: %.1f MB of heap (consensus %.1f MB, microdescriptors %.1f MB of text)", d.Len(), got, float64(len(n.Consensus))/1e6, float64(len(n.Microdescs))/1e6)
	if got > 6 {
		t.Errorf("%.1f MB of heap, over 6", got)
	}
	runtime.KeepAlive(d)
	runtime.KeepAlive(n)
}
