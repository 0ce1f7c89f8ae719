package labpage_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/chivelab/internal/labpage"
	"github.com/chivenet/chive/internal/clientpage"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"
)

// eventsPerSecond is what the page is judged with.
const eventsPerSecond = 1000

// busy is a client that tells events without end.
type busy struct {
	*chive.Client
	ctx context.Context
}

// Subscribe gives as many events a second as the page is judged with.
func (b busy) Subscribe(chive.EventKinds) (<-chan chive.Event, func()) {
	out := make(chan chive.Event, 256)
	ctx, cancel := context.WithCancel(b.ctx)
	go func() {
		t := time.NewTicker(10 * time.Millisecond)
		defer t.Stop()
		for id := uint64(0); ; {
			select {
			case <-ctx.Done():
				return
			case at := <-t.C:
				for range eventsPerSecond / 100 {
					id++
					select {
					case out <- &chive.StreamEvent{Time: at, ID: id, Circuit: 3, State: chive.StreamState(id % 4)}:
					case <-ctx.Done():
						return
					}
				}
			}
		}
	}()
	return out, cancel
}

// cpu is the processor time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	u, err := host.UsageOf(os.Getpid())
	if err != nil {
		b.Skip(err)
	}
	return u.CPU
}

// look has a process of its own read the page until stop, so that what a reader costs is not counted.
func look(b *testing.B, at string) (stop func()) {
	b.Helper()
	c := exec.Command("curl", "-sN", "-o", os.DevNull, at+"events")
	if err := c.Start(); err != nil {
		b.Skip("SKIPPED, AND NOTHING IS MEASURED: ", err)
	}
	return func() { c.Process.Kill(); c.Wait() }
}

// large starts a network of 100 nodes and its page, which tells many events.
func large(b testing.TB) (*lab.Network, string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 89, Exits: 10, VotingInterval: 30 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nw.Close() })
	cfg := labpage.New(nw, nil).Config()
	cfg.Follow = func(ctx context.Context, heard func(page.Event)) {
		clientpage.Follow(ctx, "client", busy{nw.Client, ctx}, heard)
	}
	at, stop, err := daemon.ServePage("127.0.0.1:0", cfg, func(err error) { b.Error(err) })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stop)
	if _, err := nw.Fetch(ctx, 1_000_000); err != nil {
		b.Fatal(err)
	}
	return nw, at
}

// BenchmarkPage measures what the page costs 100 nodes with 1000 events a second. In turns nobody and somebody looks: while
// the network is idle, where the processor time of a second is what the page takes; and while the client fetches, where the
// processor time of a megabyte says how much slower the nodes are, all of which share this process: other programs on the machine
// disturb it less than they disturb the rate, which stands beside it. Run it with -benchtime 1x.
func BenchmarkPage(b *testing.B) {
	nw, at := large(b)
	const turns, seconds, fetches, size = 9, 5, 12, 400_000_000
	spend := func(somebody bool, f func()) (used, took float64) {
		if somebody {
			defer look(b, at)()
		}
		began, wall := cpu(b), time.Now()
		f()
		return (cpu(b) - began).Seconds(), time.Since(wall).Seconds()
	}
	fetch := func() {
		if _, err := nw.Fetch(b.Context(), size); err != nil {
			b.Fatal(err)
		}
	}
	var idle, busy, rate [2][]float64 // nobody looks, and somebody
	var cost []float64
	for range b.N {
		for range turns {
			for i := range 2 { // it measures what a time costs
				used, _ := spend(i == 1, func() { time.Sleep(seconds * time.Second) })
				idle[i] = append(idle[i], 1000*used/seconds)
			}
		}
		for n := range fetches {
			var pair [2]float64
			for i := range 2 {
				who := (i + n) % 2 // each is the first as often as the other
				used, took := spend(who == 1, fetch)
				pair[who] = 1000 * used / (size / 1e6)
				busy[who], rate[who] = append(busy[who], pair[who]), append(rate[who], size/1e6/took)
			}
			cost = append(cost, pair[1]/pair[0])
		}
	}
	for i, who := range []string{"nobody", "somebody"} {
		b.ReportMetric(median(idle[i]), "cpu-ms/s-"+who)
		b.ReportMetric(median(busy[i]), "cpu-ms/MB-"+who)
		b.ReportMetric(median(rate[i]), "MB/s-"+who)
	}
	b.ReportMetric(median(cost), "ratio-of-cpu/MB")
	b.Logf("processor time of a fetch, somebody looks to nobody looks: quartiles %.3f and %.3f", cost[len(cost)/4], cost[3*len(cost)/4])
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
