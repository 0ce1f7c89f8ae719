package circuit_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestOpenedTogether: BEGIN of streams that goroutines open at the same time leave in few records.
func TestOpenedTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else the first may have written before the next runs
	const tries, streams = 20, 10
	stats := new(channel.Stats)
	m := channel.NewManager(&channel.Config{Log: env.Log, Now: time.Now, Stats: stats}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	c := build(t, m, circuit.HopOptions{}, simnet.New(t, simnet.Options{}))
	var records uint64
	for range tries {
		before := stats.RecordsOut.Load()
		var all [streams]*stream.Stream
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				s, err := stream.Begin(c.Last(), "echo", 80, stream.AnyFamily)
				if err != nil {
					t.Error(err)
				}
				all[i] = s
			})
		}
		wg.Wait()
		records += stats.RecordsOut.Load() - before
		for _, s := range all {
			if s == nil {
				t.FailNow()
			}
			if err := s.WaitOpen(deadline(t)); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
	}
	// Now and then Go's scheduler has the first one go on before the others have run.
	if records > tries*streams/2 {
		t.Errorf("%d records for %d times %d streams", records, tries, streams)
	}
}
