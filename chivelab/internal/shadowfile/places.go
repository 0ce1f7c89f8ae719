package shadowfile

import (
	"fmt"
	"strings"
	"time"
)

// leastDelay is between hosts whose links take no time: the simulator does not have that.
const leastDelay = 100 * time.Microsecond

// Place is what the graph knows of a host's link. The rate is the host's.
type Place struct {
	Up, Down         time.Duration
	UpLoss, DownLoss float64
}

// Latency is the time from one place to another.
func Latency(from, to Place) time.Duration { return max(leastDelay, from.Up+to.Down) }

// Places are all places of a graph, each once. It has an edge from each to each.
type Places struct {
	all    []Place
	number map[Place]int
}

// Number returns the number of a place, which is added if it is new.
func (p *Places) Number(x Place) int {
	i, ok := p.number[x]
	if !ok {
		if p.number == nil {
			p.number = map[Place]int{}
		}
		i = len(p.all)
		p.number[x] = i
		p.all = append(p.all, x)
	}
	return i
}

// Len is how many places there are.
func (p *Places) Len() int { return len(p.all) }

// gml writes the graph. A packet goes through its sender's way up and its receiver's way down.
func (p *Places) gml() string {
	var b strings.Builder
	b.WriteString("graph [\n  directed 1\n")
	for i := range p.all {
		fmt.Fprintf(&b, "  node [\n    id %d\n    host_bandwidth_up \"%d bit\"\n    host_bandwidth_down \"%d bit\"\n  ]\n", i, int64(UnboundRate), int64(UnboundRate))
	}
	for i, from := range p.all {
		for j, to := range p.all {
			fmt.Fprintf(&b, "  edge [\n    source %d\n    target %d\n    latency \"%d ns\"\n    packet_loss %s\n  ]\n",
				i, j, Latency(from, to).Nanoseconds(), float(1-(1-from.UpLoss)*(1-to.DownLoss)))
		}
	}
	b.WriteString("]\n")
	return b.String()
}

// float writes a fraction as GML has it: with a point, and no exponent.
func float(v float64) string { return fmt.Sprintf("%.9f", v) }
