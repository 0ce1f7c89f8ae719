package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// Loaded holds the latency of an interactive circuit while others download.
type Loaded struct {
	Circuits int     `json:"circuits"` // circuits that download
	MBps     float64 `json:"mb_per_s"` // of all downloads together, 10^6 bytes per second
	Ping     Latency `json:"ping_64_bytes"`
}

// settle is how long downloads run before round trips count: slow start is over
// then.
const settle = time.Second

// loaded measures n round trips on the subject's circuit 0 while the circuits
// from 1 on download.
func loaded(ctx context.Context, s Subject, tg *target.Target, circuits, n int) (_ *Loaded, err error) {
	c, err := s.Circuit(0)(ctx, "tcp", tg.Addr(target.Echo))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var moved atomic.Int64
	var wg sync.WaitGroup
	conns := make([]net.Conn, circuits)
	err = together(circuits, cancel, func(i int) error {
		var err error
		conns[i], err = s.Circuit(1+i)(ctx, "tcp", tg.Addr(target.Source))
		return err
	})
	defer wg.Wait()
	for _, b := range conns {
		if b == nil {
			continue
		}
		defer b.Close()
		if err != nil {
			continue
		}
		wg.Go(func() {
			if err := drink(b, &moved); !errors.Is(err, net.ErrClosed) {
				cancel(fault.New(fault.Network, "a download ended: %w", err))
			}
		})
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() }) // a round trip ends with the load
	defer stop()
	buf := make([]byte, 64)
	trip := func() (time.Duration, error) {
		began := time.Now()
		err := ping(ctx, c, buf)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return time.Since(began), err
	}
	began := time.Now()
	for time.Since(began) < settle {
		if _, err := trip(); err != nil {
			return nil, err
		}
	}
	var took []time.Duration
	for range n {
		d, err := trip()
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	rate := float64(moved.Load()) / 1e6 / time.Since(began).Seconds()
	return &Loaded{Circuits: circuits, MBps: rate, Ping: *NewLatency(took)}, nil
}

// drink reads from a source until the connection ends, and counts the bytes.
func drink(c net.Conn, moved *atomic.Int64) error {
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, target.MaxBytes)); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		moved.Add(int64(n))
		if err != nil {
			return err
		}
	}
}
