package shadow

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Sample makes an experiment whose relays are sampled from a consensus.
type Sample struct {
	Consensus string  // file, of either flavor
	Share     float64 // of its relays, above 0 and up to 1
	Seed      uint64
}

const (
	maxConsensus = 64 << 20
	// leastRate keeps a relay that was hardly measured able to fetch the directory, in kilobytes a second.
	leastRate = 125
	mostRate  = shadowfile.UnboundRate / 8000
	// Regions are so far from the middle of the network; so two hosts are 10 to 80 ms apart, one way.
	regions      = 8
	nearestMS    = 5
	regionsApart = 5
)

// class are the relays that can be the same on a path.
type class struct {
	guard, exit bool
	weights     []uint32 // in kilobytes a second
}

// Text is the experiment's file.
func (s *Sample) Text() ([]byte, error) {
	if !(s.Share > 0 && s.Share <= 1) {
		return nil, fault.New(fault.Config, "--share: %v is no part from above 0 to 1", s.Share)
	}
	doc, err := atomicfile.ReadRegular(s.Consensus, maxConsensus)
	if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	classes, err := s.classes(doc)
	if err != nil {
		return nil, err
	}
	luck := rand.New(rand.NewPCG(s.Seed, 3))
	w := &writer{luck: luck}
	path := make([]string, 3)
	for _, c := range classes {
		n := max(1, int(float64(len(c.weights))*s.Share+.5))
		if len(c.weights) == 0 {
			n = 0
		}
		for i, weight := range medians(c.weights, n) {
			role := "relay"
			if c.exit {
				role = "exit"
			}
			name := w.node(role, weight)
			// The relays by which circuits are measured are the middle ones of their classes.
			if at := c.place(); at >= 0 && i == n/2 && path[at] == "" {
				path[at] = name
			}
		}
	}
	if i := slices.Index(path, ""); i >= 0 {
		return nil, fault.New(fault.Config, "%s: it has no relay that can be the %s of a path", s.Consensus, []string{"guard", "middle", "exit"}[i])
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Relays sampled from %s: of guards, exits, both and neither a share of %v each, ordered by weight, one of each piece.
# A relay's link carries what the consensus says of it. Where relays are, it does not say: each is in one of %d regions, by luck.
title = "%v %% of a network"
seed = %d
repetitions = 100
downloads = 20
size = 1048576
handshakes = ["ntor-v3"]
path = [%q, %q, %q]

[[link]]
name = "home"
delay = "10ms"
rate = "100M"

[[link]]
name = "authority"
delay = "10ms"

[[place]]
name = "home"
link = "home"

[[place]]
name = "authority"
link = "authority"

[[node]]
name = "client"
role = "client"
place = "home"
`, strconv.Quote(s.Consensus), s.Share, regions, 100*s.Share, s.Seed, path[0], path[1], path[2])
	for i := range leastAuthorities {
		fmt.Fprintf(&b, "\n[[node]]\nname = \"authority%d\"\nrole = \"authority\"\nplace = \"authority\"\n", i)
	}
	b.WriteString(w.b.String())
	return b.Bytes(), nil
}

// place is where relays of a class are in the path that is measured; -1: nowhere.
func (c *class) place() int {
	switch {
	case c.guard && !c.exit:
		return 0
	case !c.guard && !c.exit:
		return 1
	case c.exit && !c.guard:
		return 2
	}
	return -1
}

// writer writes relays.
type writer struct {
	luck *rand.Rand
	b    strings.Builder
	n    int
}

func (w *writer) node(role string, weight uint32) string {
	w.n++
	name := fmt.Sprintf("relay%d", w.n)
	fmt.Fprintf(&w.b, "\n[[link]]\nname = %q\nrate = \"%dk\"\ndelay = \"%dms\"\n\n[[place]]\nname = %q\nlink = %q\n\n[[node]]\nname = %q\nrole = %q\nplace = %q\n",
		name, 8*uint64(min(mostRate, max(leastRate, weight))), nearestMS+regionsApart*w.luck.IntN(regions), name, name, name, role, name)
	return name
}

// medians orders values, cuts them into n pieces, and returns the middle of each.
func medians(values []uint32, n int) (out []uint32) {
	slices.Sort(values)
	for i := range n {
		from, to := i*len(values)/n, (i+1)*len(values)/n
		out = append(out, values[(from+to-1)/2])
	}
	return out
}

// classes reads a consensus. Errors name the file and the line.
func (s *Sample) classes(doc []byte) ([]*class, error) {
	out := []*class{{guard: true}, {}, {exit: true}, {guard: true, exit: true}}
	skipped := 0
	if bytes.HasPrefix(doc, []byte("@type ")) { // of an archive
		_, doc, _ = bytes.Cut(doc, []byte("\n"))
		skipped = 1
	}
	relays := 0
	_, err := netdoc.ParseConsensus(doc, nil, func(r *netdoc.RouterStatus) error {
		const need = netdoc.FlagRunning | netdoc.FlagValid
		if r.Flags&need != need || r.Flags&netdoc.FlagAuthority != 0 || !r.HasBandwidth {
			return nil
		}
		guard, exit := r.Flags&netdoc.FlagGuard != 0, r.Flags&netdoc.FlagExit != 0 && r.Flags&netdoc.FlagBadExit == 0
		i := slices.IndexFunc(out, func(c *class) bool { return c.guard == guard && c.exit == exit })
		out[i].weights = append(out[i].weights, r.Bandwidth)
		relays++
		return nil
	})
	if err != nil {
		return nil, atLine(s.Consensus, skipped, err)
	}
	if relays == 0 {
		return nil, fault.New(fault.Config, "%s: it has no relays that run", s.Consensus)
	}
	return out, nil
}

var lineOf = regexp.MustCompile(`^consensus: line (\d+)`)

// atLine writes the line of an error as all others are written.
func atLine(name string, skipped int, err error) error {
	text := err.Error()
	m := lineOf.FindStringSubmatch(text)
	if m == nil {
		return fault.New(fault.Config, "%s: %w", name, err)
	}
	n, bad := strconv.Atoi(m[1])
	if bad != nil {
		return fault.New(fault.Config, "%s: %w", name, err)
	}
	return fault.New(fault.Config, "%s:%d: %s", name, n+skipped, strings.TrimLeft(strings.TrimPrefix(text, m[0]), ":, "))
}
