package benchcontrol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/proc"
)

// Events is what became of many events with several readers.
type Events struct {
	Sent      int              `json:"sent"`     // in all rounds
	Received  int              `json:"received"` // by all readers
	PerSecond float64          `json:"per_second"`
	Lag       *measure.Latency `json:"lag"`       // from the command that causes it until a reader has it
	CPU       float64          `json:"cpu_us"`    // the program's processor time for each event, to all readers
	Memory    float64          `json:"memory_mb"` // resident, at the end
}

// batch is how many events one command causes: a MAPADDRESS with as many addresses.
const batch = 100

// events has the programs send events at a rate, to readers that read all.
func (r *run) events(ctx context.Context) error {
	r.Progress("events")
	lags := map[*program][]time.Duration{}
	cpu, took := map[*program]time.Duration{}, map[*program]time.Duration{}
	rounds := max(1, r.Rounds/3)
	if r.EventTime == 0 {
		return nil
	}
	err := r.turns(rounds, func(round int, p *program) error {
		before, err := proc.CPU(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		lag, long, err := p.eventRound(ctx, r.Readers, r.Rate, r.EventTime, round)
		if err != nil {
			return err
		}
		took[p] += long
		after, err := proc.CPU(p.cmd.Process.Pid)
		cpu[p] += after - before
		lags[p] = append(lags[p], lag...)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range r.programs {
		e := &Events{Received: len(lags[p]), Sent: len(lags[p]) / r.Readers, Lag: measure.NewLatency(lags[p])}
		e.PerSecond = float64(e.Sent) / took[p].Seconds()
		e.CPU = float64(cpu[p].Microseconds()) / float64(e.Sent)
		if e.Memory, err = p.memory(); err != nil {
			return err
		}
		p.figures.Events = e
	}
	return nil
}

// eventRound causes events for a time, and returns when each of them came to each reader, since its command was sent, and how long
// all took. That one is missing is an error.
func (p *program) eventRound(ctx context.Context, readers, rate int, long time.Duration, round int) (lags []time.Duration, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, long+connectTime)
	defer cancel()
	commands := max(1, int(long.Seconds()*float64(rate))/batch)
	sent := make([]time.Time, commands)
	arrived := make([][]time.Time, readers) // of each reader, in order
	errs := make([]error, readers)
	var wg sync.WaitGroup
	for i := range readers {
		c, err := ctor.DialControl(ctx, p.address.String(), p.at("data/control_auth_cookie"))
		if err != nil {
			return nil, 0, err
		}
		defer c.Close()
		in, err := c.Events(ctx, "ADDRMAP")
		if err != nil {
			return nil, 0, err
		}
		arrived[i] = make([]time.Time, 0, commands*batch)
		wg.Go(func() {
			for len(arrived[i]) < commands*batch {
				select {
				case e, ok := <-in:
					if !ok || !isOurs(e, round, len(arrived[i])) {
						errs[i] = fault.New(fault.Protocol, "reader %d: event %d is missing: %v %q", i, len(arrived[i]), ok, e.Rest)
						cancel()
						return
					}
					arrived[i] = append(arrived[i], e.At)
				case <-ctx.Done():
					errs[i] = fault.New(fault.Timeout, "reader %d: event %d did not come: %w", i, len(arrived[i]), context.Cause(ctx))
					return
				}
			}
		})
	}
	began := time.Now()
	if err = p.causeEvents(ctx, sent, rate, round); err != nil {
		cancel()
	}
	wg.Wait()
	took = time.Since(began)
	for _, e := range append(errs, err) {
		if e != nil {
			return nil, 0, e
		}
	}
	for _, times := range arrived {
		for n, at := range times {
			lags = append(lags, at.Sub(sent[n/batch]))
		}
	}
	return lags, took, nil
}

// causeEvents sends commands at a rate. Each maps the same addresses to others than the one before: the same again is no event.
func (p *program) causeEvents(ctx context.Context, sent []time.Time, rate, round int) error {
	began := time.Now()
	for n := range sent {
		var b strings.Builder
		b.WriteString("MAPADDRESS")
		for i := range batch {
			fmt.Fprintf(&b, " from%d.test=to%d-%d.test", i, round, n*batch+i)
		}
		sent[n] = time.Now()
		if _, err := p.control.Command(ctx, b.String()); err != nil {
			return err
		}
		due := began.Add(time.Second * batch * time.Duration(n+1) / time.Duration(rate)) // what came late does not make all later
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%w", context.Cause(ctx))
		}
	}
	return nil
}

// isOurs reports whether an event is the n-th of a round.
func isOurs(e ctor.Event, round, n int) bool {
	f := strings.Fields(e.Rest)
	return len(f) > 1 && f[1] == "to"+strconv.Itoa(round)+"-"+strconv.Itoa(n)+".test"
}

// listenToAll listens to all events that a program has, but DEBUG, which C tor sends by the thousand.
func (p *program) listenToAll(ctx context.Context) (stop func(), err error) {
	c, err := ctor.DialControl(ctx, p.address.String(), p.at("data/control_auth_cookie"))
	if err != nil {
		return nil, err
	}
	names, err := c.GetInfo(ctx, "events/names")
	if err != nil {
		c.Close()
		return nil, err
	}
	in, err := c.Events(ctx, slices.DeleteFunc(strings.Fields(names), func(s string) bool { return s == "DEBUG" })...)
	if err != nil {
		c.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range in {
		}
	}()
	return func() {
		c.Close()
		<-done
	}, nil
}
