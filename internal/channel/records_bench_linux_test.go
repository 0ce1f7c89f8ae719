package channel

import (
	"context"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// BenchmarkRecords is what 62 cells at a time cost both ends of a link over loopback, with records of C tor's size
// and with those that carry whole cells only.
func BenchmarkRecords(b *testing.B) {
	for name, common := range map[string]bool{"common": true, "fast": false} {
		b.Run(name, func(b *testing.B) {
			dialled, accepted := tcpPair(b)
			k := keys(b)
			came := make(chan int, 4096)
			served := &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Accept: func(c *CircuitEnd, _ cell.Command, _ []byte) {
				c.SetReceiver(&teller{newSink(), came})
			}}
			relay := make(chan *Channel, 1)
			go func() {
				defer close(relay)
				l, err := Accept(context.Background(), accepted, &LinkConfig{Identity: k})
				if err != nil {
					b.Error(err)
					return
				}
				relay <- Start(l, served)
			}()
			l, err := Connect(b.Context(), dialled, k.ID, netip.MustParseAddrPort("127.0.0.1:9001"), &LinkConfig{Common: common})
			if err != nil {
				b.Fatal(err)
			}
			a := Start(l, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			c, err := a.Open(newSink(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
				b.Fatal(err)
			}
			far := <-relay
			const batch = 2 * recordCells
			cells := named(c.ID(), 0, batch)
			b.SetBytes(batch * cell.Len)
			start := processTime(b)
			for b.Loop() {
				claimed, err := c.Enqueue(cells)
				if err != nil {
					b.Fatal(err)
				}
				if claimed {
					a.Flush()
				}
				for n := 0; n < batch; n += <-came {
				}
			}
			b.ReportMetric(float64(processTime(b)-start)/float64(b.N*batch), "cpu-ns/cell")
			a.Close(fault.New(fault.Closed, "the benchmark is over"))
			<-a.Done()
			<-far.Done()
		})
	}
}

// processTime is the processor time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
