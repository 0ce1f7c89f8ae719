package appearance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/panics"
)

// PathPlan says whose paths to compare.
type PathPlan struct {
	Tor      string // the program of the authorities; empty: "tor" in PATH
	Subjects [2]Subject
	Paths    int // of each
	Log      *slog.Logger
}

// pathLayout is a network of twenty relays and three authorities with weights from 1 to 20; the exits are neither
// the fastest nor the slowest.
var pathLayout = layout{relays: 12, exits: 8, weight: func(i int) int { return 1000 * (1 + i*7%20) }}

// pathsAtOnce is how many circuits of a program are built at the same time.
const pathsAtOnce = 16

// PathTest is one comparison of what the two programs chose.
type PathTest struct {
	What      string
	Paths     [2]int  // how many there were
	ChiSquare float64 // of both samples, whether they are of one distribution
	Freedom   int
	Limit     float64 // ChiSquare is above it for one of a thousand pairs of samples of one distribution
}

// Different reports whether the two programs choose differently.
func (t *PathTest) Different() bool { return t.ChiSquare > t.Limit }

// Paths lets both programs choose as many paths in one network, by one guard, and compares which relays they have:
// their exits, their middles, and their middles with each exit.
func Paths(ctx context.Context, p PathPlan) (tests []PathTest, err error) {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	nw, err := startNetwork(ctx, p.Tor, pathLayout, p.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, nw.close()) }()
	guard := "EntryNodes $" + nw.relays[0].Target().RSA.String()
	var chosen [2][]path
	var errs [2]error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i := range p.Subjects {
		s := p.Subjects[i]
		// Timeouts that are learned would leave out relays that are slow by chance.
		s.Torrc = append(slices.Clone(s.Torrc), guard, "LearnCircuitBuildTimeout 0", "CircuitBuildTimeout 60")
		c, err := nw.newClient(i, &s, asClient)
		if err != nil {
			return nil, err
		}
		wg.Go(panics.Contain(p.Log, func(err error) { errs[i] = err }, func() {
			if chosen[i], errs[i] = c.paths(ctx, nw, p.Paths); errs[i] != nil {
				cancel()
			}
		}))
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, t := range []struct {
		what string
		of   func(path) string
	}{
		{"exits", func(p path) string { return p[2] }},
		{"middles", func(p path) string { return p[1] }},
		{"middles with their exits", func(p path) string { return p[1] + " " + p[2] }},
	} {
		tests = append(tests, comparePaths(t.what, chosen, t.of))
	}
	return tests, nil
}

// path has the nicknames of a circuit's relays.
type path [3]string

// paths has a client build circuits, and returns what they went over.
func (c *client) paths(ctx context.Context, nw *network, n int) (all []path, err error) {
	ctl, err := c.start(ctx, nw)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ctl.Close(), c.proc.Stop()) }()
	events, err := ctl.Events(ctx, "CIRC")
	if err != nil {
		return nil, err
	}
	open, failed := map[string]bool{}, 0
	for len(all) < n {
		for len(open) < min(pathsAtOnce, n-len(all)) {
			reply, err := ctl.Command(ctx, "EXTENDCIRCUIT 0")
			if err != nil {
				return nil, fault.New(fault.KindOf(err), "%s: a circuit: %w", c.subject.Name, err)
			}
			open[strings.TrimPrefix(reply[0], "EXTENDED ")] = true
		}
		select {
		case e, ok := <-events:
			if !ok {
				return nil, fault.New(fault.Closed, "%s has closed its control port: %s", c.subject.Name, c.lastWords())
			}
			circ, err := ctor.ParseCircuit(e.Rest)
			if err != nil {
				return nil, err
			}
			switch {
			case !open[circ.ID]:
			case circ.Status == "BUILT" && len(circ.Path) == 3:
				delete(open, circ.ID)
				all = append(all, path{circ.Path[0].Name, circ.Path[1].Name, circ.Path[2].Name})
				if err := ctl.CloseCircuit(ctx, circ.ID); err != nil {
					return nil, err
				}
			case circ.Status == "BUILT", circ.Status == "FAILED", circ.Status == "CLOSED":
				delete(open, circ.ID)
				if failed++; failed > n/20+10 { // the network, and not the client, chooses those that fail
					return nil, fault.New(fault.Network, "%s: too many circuits fail: %s", c.subject.Name, e.Rest)
				}
			}
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "%s: %d paths: %w", c.subject.Name, len(all), context.Cause(ctx))
		}
	}
	return all, nil
}

// comparePaths is a test of two samples by Pearson's chi-squared. Values that are rare are counted as one.
func comparePaths(what string, chosen [2][]path, of func(path) string) PathTest {
	counts := map[string]*[2]int{}
	t := PathTest{What: what}
	for i, all := range chosen {
		t.Paths[i] = len(all)
		for _, p := range all {
			k := of(p)
			if counts[k] == nil {
				counts[k] = new([2]int)
			}
			counts[k][i]++
		}
	}
	const least = 10 // in both samples together, so that about five are expected in each
	var rare [2]int
	for k, n := range counts {
		if n[0]+n[1] < least {
			rare[0], rare[1] = rare[0]+n[0], rare[1]+n[1]
			delete(counts, k)
		}
	}
	if rare[0]+rare[1] > 0 {
		counts[""] = &rare
	}
	total := float64(t.Paths[0] + t.Paths[1])
	for _, n := range counts {
		for i := range n {
			want := float64(n[0]+n[1]) * float64(t.Paths[i]) / total
			t.ChiSquare += (float64(n[i]) - want) * (float64(n[i]) - want) / want
		}
	}
	t.Freedom = max(1, len(counts)-1)
	t.Limit = chiSquareLimit(t.Freedom)
	return t
}

// chiSquareLimit is the value above which one of a thousand samples is, by the approximation of Wilson and
// Hilferty.
func chiSquareLimit(freedom int) float64 {
	const z = 3.0902
	a := 2 / (9 * float64(freedom))
	return float64(freedom) * math.Pow(1-a+z*math.Sqrt(a), 3)
}

// String tells a test in one line.
func (t *PathTest) String() string {
	return fmt.Sprintf("%s of %d and %d paths: chi-squared %.1f with %d degrees of freedom, and the limit is %.1f", t.What, t.Paths[0], t.Paths[1], t.ChiSquare, t.Freedom, t.Limit)
}
