package benchcirc

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// maxErrors is how many failures a report lists.
const maxErrors = 10

// Run executes the plan. A failed circuit is counted, and the next one is built.
// progress is called after each circuit. An error means that the measurement
// failed, not a circuit.
func Run(ctx context.Context, p Plan, progress func(done, of, failed int)) (*Report, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	r := &Report{Handshake: p.Handshake, Directory: "cached", Relays: "network", Count: p.Count, Machine: ThisMachine(), Samples: []Sample{}}
	if p.Cold {
		r.Directory = "cold"
	}
	network, relays := p.Network, []*relay(nil)
	if network == nil {
		n := p.Hops
		if p.Lengths > 0 {
			n = maxHops
		}
		r.Relays = "processes"
		if len(p.Command) == 0 {
			r.Relays = "in-process"
		}
		var err error
		if relays, network, err = startRelays(ctx, n, p.Command); err != nil {
			return nil, err
		}
		defer stopRelays(relays)
	}
	c, err := newClient(ctx, &p, network, relays, nil, dialTCP)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var how []circuit.Protection
	r.Samples, how, err = c.series(ctx, p.Hops, p.Count, r, progress)
	if err != nil {
		return nil, err
	}
	r.Carriage = carriages(how, p.Hops)
	r.summarize()
	for hops := 1; p.Lengths > 0 && hops <= maxHops; hops++ {
		samples, _, err := c.series(ctx, hops, p.Lengths, &Report{}, progress)
		if err != nil {
			return nil, err
		}
		r.Lengths = append(r.Lengths, Length{Hops: hops, Failed: p.Lengths - len(samples), Stats: Describe(totals(samples)), Samples: samples})
	}
	return r, nil
}

// series builds circuits of one length, one after another. Failures go into r.
func (c *client) series(ctx context.Context, hops, count int, r *Report, progress func(done, of, failed int)) (samples []Sample, how []circuit.Protection, err error) {
	samples = []Sample{}
	for range warmUp {
		if _, _, err := c.build(ctx, hops); err != nil {
			return nil, nil, fault.New(fault.KindOf(err), "the first circuit: %w", err)
		}
	}
	seen, err := c.counters()
	if err != nil {
		return nil, nil, err
	}
	failed := 0
	for i := range count {
		s, h, err := c.build(ctx, hops)
		if cerr := ctx.Err(); cerr != nil {
			return nil, nil, fault.Wrap(fault.Closed, cerr)
		}
		if err != nil {
			failed++
			if len(r.Errors) < maxErrors {
				r.Errors = append(r.Errors, err.Error())
			}
			if seen, err = c.counters(); err != nil {
				return nil, nil, err
			}
		} else {
			if seen, err = c.relayShare(&s, h, seen); err != nil {
				return nil, nil, err
			}
			samples, how = append(samples, s), h
		}
		progress(i+1, count, failed)
	}
	return samples, how, nil
}

// relayShare stores each relay's computing time for the circuit since seen, and
// returns the relays' counters after it.
func (c *client) relayShare(s *Sample, how []circuit.Protection, seen []counters) ([]counters, error) {
	for range askAgain {
		now, err := c.counters()
		if err != nil || len(now) == 0 {
			return now, err
		}
		all := true
		for i := range s.Hops {
			want := uint64(1)
			if i < len(how) && how[i].Carriage == handshake.CarriageB {
				want = 2 // ntor-v3, and the rekey
			}
			all = all && now[i].Handshakes-seen[i].Handshakes >= want
			s.Hops[i].RelayCrypto = float64(now[i].Nanos-seen[i].Nanos) / 1000
		}
		if all {
			return now, nil
		}
	}
	return nil, fault.New(fault.Local, "the relays have not counted one circuit's handshakes")
}

// askAgain is how many times relays are asked for a circuit's handshakes: a relay
// may answer the client before it counts.
const askAgain = 1000

// counters asks the measurement's own relays for their counters.
func (c *client) counters() ([]counters, error) {
	var out []counters
	for _, r := range c.relays {
		n, err := r.ask(order{})
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func carriages(how []circuit.Protection, hops int) string {
	out := strings.Repeat("-", hops)
	for i, p := range how {
		if !p.IsZero() {
			out = out[:i] + string(rune(p.Carriage)) + out[i+1:]
		}
	}
	return out
}

// ThisMachine describes this machine, with the data that the system provides.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return m
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
			m.CPU = strings.TrimSpace(v)
			break
		}
	}
	return m
}
