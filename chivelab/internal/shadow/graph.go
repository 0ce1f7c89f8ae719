package shadow

import (
	"fmt"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
)

const (
	// unboundRate stands for links without a bound, which the simulator does not have.
	unboundRate = 10_000_000_000
	// leastDelay is between hosts whose links take no time: the simulator does not have that.
	leastDelay = 100 * time.Microsecond
)

// rateOf is a direction's rate in bits a second. The simulator wants whole bytes.
func rateOf(d links.Direction) int64 {
	if d.Rules.Rate == 0 {
		return unboundRate
	}
	return max(8, d.Rules.Rate/8*8)
}

// latency is the time from one host to another.
func latency(from, to links.Access) time.Duration {
	return max(leastDelay, from.Up.Rules.Delay+to.Down.Rules.Delay)
}

// kind is what the graph knows of a link. The rate is the host's.
type kind struct {
	up, down         time.Duration
	upLoss, downLoss float64
}

func kindOf(a links.Access) kind {
	return kind{a.Up.Rules.Delay, a.Down.Rules.Delay, a.Up.Rules.Loss, a.Down.Rules.Loss}
}

// graph has a node for each kind of link, and an edge from each to each.
type graph struct {
	kinds  []kind
	number map[kind]int
}

func newGraph(hosts []*host) *graph {
	g := &graph{number: map[kind]int{}}
	for _, h := range hosts {
		k := kindOf(h.access)
		if _, ok := g.number[k]; !ok {
			g.number[k] = len(g.kinds)
			g.kinds = append(g.kinds, k)
		}
	}
	return g
}

// gml writes the graph. A packet goes through its sender's way up and its receiver's way down.
func (g *graph) gml() string {
	var b strings.Builder
	b.WriteString("graph [\n  directed 1\n")
	for i := range g.kinds {
		fmt.Fprintf(&b, "  node [\n    id %d\n    host_bandwidth_up \"%d bit\"\n    host_bandwidth_down \"%d bit\"\n  ]\n", i, int64(unboundRate), int64(unboundRate))
	}
	for i, from := range g.kinds {
		for j, to := range g.kinds {
			fmt.Fprintf(&b, "  edge [\n    source %d\n    target %d\n    latency \"%d ns\"\n    packet_loss %s\n  ]\n",
				i, j, max(leastDelay, from.up+to.down).Nanoseconds(), float(1-(1-from.upLoss)*(1-to.downLoss)))
		}
	}
	b.WriteString("]\n")
	return b.String()
}

// float writes a fraction as GML has it: with a point, and no exponent.
func float(v float64) string { return fmt.Sprintf("%.9f", v) }
