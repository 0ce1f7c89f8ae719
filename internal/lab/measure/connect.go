package measure

import (
	"context"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// ApartPause is the time before each connection on a circuit of its own.
const ApartPause = 50 * time.Millisecond

// opening is one connection that was opened.
type opening struct{ answer, first time.Duration }

// connect opens and closes a connection to an echo service. The round trip of one byte also
// detects a client that answers before the far end did.
func connect(ctx context.Context, dial Dial, addr string) (opening, error) {
	began := time.Now()
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return opening{}, err
	}
	o := opening{answer: time.Since(began)}
	defer c.Close()
	err = ping(ctx, c, make([]byte, 1))
	o.first = time.Since(began)
	return o, err
}

func newConnect(all []opening, cpu time.Duration) *Connect {
	var answers, firsts []time.Duration
	for _, o := range all {
		answers, firsts = append(answers, o.answer), append(firsts, o.first)
	}
	return &Connect{*NewLatency(answers), *NewLatency(firsts), float64(cpu.Nanoseconds()) / 1e3 / float64(len(all))}
}

// Alone returns the times of connections that were opened one after the other; nil: not measured.
func (r *Report) Alone() *Connect {
	if r.Connect == nil || r.FirstByte == nil {
		return nil
	}
	return &Connect{*r.Connect, *r.FirstByte, r.ConnectCPU}
}

// connects measures connections of each kind that the plan has.
func (t *turns) connects(ctx context.Context) error {
	addr := t.target.Addr(target.Echo)
	if t.Connects > 0 {
		if err := t.opens(ctx, "connect time", t.Connects, t.Pause, one, func(s *Subject, _ int) Dial { return s.Dial },
			func(r *Report, c *Connect) { r.Connect, r.FirstByte, r.ConnectCPU = &c.Answer, &c.FirstByte, c.CPU }, addr); err != nil {
			return err
		}
	}
	if t.Apart > 0 {
		if err := t.opens(ctx, "connect time, each on a circuit of its own", t.Apart, ApartPause, one, func(s *Subject, i int) Dial { return s.Circuit(apart + i) },
			func(r *Report, c *Connect) { r.Apart = c }, addr); err != nil {
			return err
		}
	}
	if t.Crowd > 0 && t.Connects > 0 {
		// No more than one after the other: a client keeps each for a second or two after its program has
		// closed it, and has room for a number of them.
		return t.opens(ctx, "connect time, "+strconv.Itoa(t.Crowd)+" at once", max(1, t.Connects/t.Crowd), t.Pause, t.Crowd, func(s *Subject, _ int) Dial { return s.Dial },
			func(r *Report, c *Connect) { r.Crowd = c }, addr)
	}
	return nil
}

// one connection at a time.
const one = 1

// apart is the first number of circuits that carry one connection each; those below are
// for other measurements.
const apart = 1000

// opens has each subject open crowd connections in its turn, n times, after one turn that does not
// count: it may have to build a circuit. dial says how in the i-th turn.
func (t *turns) opens(ctx context.Context, what string, n int, pause time.Duration, crowd int, dial func(s *Subject, i int) Dial, report func(*Report, *Connect), addr string) error {
	return t.step(what, func() error {
		took := make([][]opening, len(t.subjects))
		used := make([]time.Duration, len(t.subjects))
		for at := range n + 1 {
			err := t.round(func(i int) error {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
					return fault.New(fault.Timeout, "connect: %w", context.Cause(ctx))
				}
				all := make([]opening, crowd)
				ctx, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				s := &t.subjects[i]
				d := dial(s, at)
				before, err := usages(s.Processes[:min(1, len(s.Processes))])
				if err != nil {
					return err
				}
				err = together(crowd, cancel, func(k int) (err error) { all[k], err = connect(ctx, d, addr); return err })
				if err != nil {
					return err
				}
				after, err := usages(s.Processes[:len(before)])
				if at > 0 {
					took[i] = append(took[i], all...)
					for k := range after {
						used[i] += after[k].CPU - before[k].CPU
					}
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		for i, r := range t.reports {
			report(r, newConnect(took[i], used[i]))
		}
		return nil
	})
}
