package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// pingBlock is how many round trips a subject makes in a turn.
const pingBlock = 50

// turns measures several subjects in turns.
type turns struct {
	*Plan
	target   *target.Target
	subjects []Subject
	reports  []*Report // of each subject
	began    int       // rounds that began
}

func (t *turns) run(ctx context.Context) error {
	for _, s := range t.subjects {
		if s.Circuit == nil && (len(t.Circuits) > 0 || t.Loaded > 0 || t.Apart > 0) {
			return fault.New(fault.Config, "%s: its circuits cannot be told apart, which this measurement needs", s.Name)
		}
	}
	err := t.step("idle memory", func() error {
		return t.round(func(i int) (err error) { t.reports[i].Idle, err = memory(t.subjects[i].Processes); return err })
	})
	if err == nil {
		err = t.connects(ctx)
	}
	if err == nil && t.Pings > 0 {
		err = t.step("round trips", func() error { return t.pings(ctx) })
	}
	for _, kind := range t.transfers() {
		if err == nil {
			err = t.step(kind.String(), func() error { return t.transfer(ctx, kind) })
		}
	}
	if err == nil && t.Loaded > 0 {
		err = t.step(fmt.Sprintf("round trips beside %d circuits", t.Loaded), func() error {
			return t.round(func(i int) (err error) {
				t.reports[i].Loaded, err = loaded(ctx, t.subjects[i], t.target, t.Loaded, max(1, t.LoadedPings))
				return err
			})
		})
	}
	if err != nil {
		return err
	}
	return t.round(func(i int) (err error) { t.reports[i].Memory, err = memory(t.subjects[i].Processes); return err })
}

// step does one of the plan's measurements.
func (t *turns) step(what string, f func() error) error {
	if t.Progress != nil {
		var names []string
		for _, s := range t.subjects {
			names = append(names, s.Name)
		}
		t.Progress(strings.Join(names, ", ") + ": " + what)
	}
	if err := f(); err != nil {
		return fault.New(fault.KindOf(err), "%s: %w", what, err)
	}
	return nil
}

// round gives each subject its turn, beginning with another subject each time:
// the second subject finds caches and queues as the first left them.
func (t *turns) round(f func(i int) error) error {
	n := len(t.subjects)
	for k := range n {
		i := (t.began + k) % n
		if err := f(i); err != nil {
			return fault.New(fault.KindOf(err), "%s: %w", t.subjects[i].Name, err)
		}
	}
	t.began++
	return nil
}

// pings makes round trips on one connection of each subject.
func (t *turns) pings(ctx context.Context) error {
	conns := make([]*pinger, len(t.subjects))
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.conn.Close()
			}
		}
	}()
	err := t.round(func(i int) (err error) {
		conns[i], err = dialPinger(ctx, t.subjects[i].Dial, t.target.Addr(target.Echo))
		return err
	})
	for left := t.Pings; left > 0 && err == nil; left -= pingBlock {
		err = t.round(func(i int) error { return conns[i].block(ctx, min(left, pingBlock)) })
	}
	if err != nil {
		return err
	}
	for i, r := range t.reports {
		r.Ping = NewLatency(conns[i].took)
	}
	return nil
}

// transfer measures one kind of transfer as often as the plan says and keeps
// each subject's run of median throughput, with that run's CPU times.
func (t *turns) transfer(ctx context.Context, kind Throughput) error {
	all := make([][]Throughput, len(t.subjects))
	for range max(1, t.Rounds) {
		err := t.round(func(i int) error {
			x, err := transfer(ctx, t.subjects[i], t.target, kind, t.Bytes)
			all[i] = append(all[i], x)
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, r := range t.reports {
		slices.SortFunc(all[i], func(a, b Throughput) int { return int(1e6 * (a.Seconds - b.Seconds)) })
		r.Throughput = append(r.Throughput, all[i][len(all[i])/2])
	}
	return nil
}
