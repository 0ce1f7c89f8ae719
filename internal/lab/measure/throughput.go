package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/nonblock"
)

// transfer opens the streams first, and then moves the bytes over all of them
// at the same time; the clock runs from the first request to the last byte.
func transfer(ctx context.Context, s Subject, tg *target.Target, out Throughput, bytes int64) (Throughput, error) {
	service, move := target.Source, down
	if out.Direction == "up" {
		service, move = target.Sink, up
	}
	streams := out.Streams
	each := max(1, bytes/int64(streams))
	out.Bytes = each * int64(streams)
	// If one stream fails, all end, so that the caller does not wait for the
	// rest.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conns := make([]net.Conn, streams)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	err := together(streams, cancel, func(i int) error {
		dial := s.Dial
		if out.Circuits > 0 {
			dial = s.Circuit(i)
		}
		c, err := dial(ctx, "tcp", tg.Addr(service))
		conns[i] = c
		return err
	})
	if err != nil {
		return out, err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.SetDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	before, err := usages(s.Processes)
	if err != nil {
		return out, err
	}
	began := time.Now()
	if err := together(streams, cancel, func(i int) error { return move(conns[i], each) }); err != nil {
		return out, err
	}
	took := time.Since(began)
	after, err := usages(s.Processes)
	if err != nil {
		return out, err
	}
	out.Seconds = took.Seconds()
	out.MBps = float64(out.Bytes) / 1e6 / out.Seconds
	out.Memory = memoryOf(s.Processes, after)
	cells := float64(out.Bytes) / CellData
	for i, p := range s.Processes {
		used := after[i].CPU - before[i].CPU
		out.CPU = append(out.CPU, CPU{p.Name, used.Seconds(), float64(used) / float64(time.Microsecond) / cells})
	}
	return out, nil
}

// together runs f for 0 to n-1 at the same time; the first error cancels.
func together(n int, cancel context.CancelCauseFunc, f func(int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if errs[i] = f(i); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func usages(ps []Process) ([]proc.Usage, error) {
	out := make([]proc.Usage, len(ps))
	for i, p := range ps {
		var err error
		if out[i], err = proc.Of(p.PID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// down asks a source for n bytes. They are counted, not hashed: the measuring
// process shares the machine with what it measures.
func down(c net.Conn, n int64) error {
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		return err
	}
	got, err := io.CopyBuffer(discard{}, io.LimitReader(nonblock.NewSocket(c), n), make([]byte, 64<<10))
	if err == nil && got != n {
		err = fault.New(fault.Network, "the stream ended after %d of %d bytes", got, n)
	}
	return err
}

// discard is io.Discard without its ReadFrom, whose buffer is 8 kB.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// up sends n known bytes to a sink and waits for its SHA-256 of them.
func up(c net.Conn, n int64) error {
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{nonblock.NewSocket(c)}, target.Bytes(n), make([]byte, 64<<10)); err != nil {
		return err
	}
	var sum [32]byte
	if _, err := io.ReadFull(c, sum[:]); err != nil {
		return err
	}
	if sum != target.Sum(n) {
		return fault.New(fault.Network, "the sink received other bytes than were sent")
	}
	return nil
}
