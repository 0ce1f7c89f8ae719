package wan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Program is who made a node's program.
type Program string

// The programs.
const (
	Tor   Program = "tor"
	Chive Program = "chive"
)

// Side is whose clients use whose relays.
type Side struct {
	Clients Program `json:"clients"`
	Relays  Program `json:"relays"`
}

func (s Side) String() string {
	name := map[Program]string{Tor: "C tor", Chive: "Chive"}
	if s.Clients == s.Relays {
		return "all " + name[s.Relays]
	}
	return fmt.Sprintf("%s clients, %s relays", name[s.Clients], name[s.Relays])
}

// Baseline is the side that the others are compared with.
var Baseline = Side{Tor, Tor}

// Sides are all sides, the baseline first. Those with the same relays are neighbours, as one network serves both.
var Sides = []Side{Baseline, {Chive, Tor}, {Chive, Chive}, {Tor, Chive}}

// Plan says what is measured. It is written into reports: a directory has the samples of one plan.
type Plan struct {
	Relays  int       `json:"relays"`
	Clients int       `json:"clients"`
	Seeds   int       `json:"seeds"`
	Losses  []float64 `json:"losses"` // of a packet between two hosts
	Scale   float64   `json:"scale"`  // of all relays' rates

	Window   time.Duration `json:"window_ns"`   // in which requests begin
	Patience time.Duration `json:"patience_ns"` // after the last of them has begun, and then what is not there has failed
	Requests int           `json:"requests"`    // of each client
	Sizes    []Size        `json:"sizes"`
}

// Size is one size of pages, with its share of the requests.
type Size struct {
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share"`
	// Until is the part of the window in which such requests begin: large pages need time to end.
	Until float64 `json:"until"`
}

// Full is the whole comparison.
func Full() Plan {
	return Plan{Relays: 20, Clients: 30, Seeds: 5, Losses: []float64{0, .002}, Scale: 1,
		Window: 20 * time.Second, Patience: 15 * time.Second, Requests: 4,
		Sizes: []Size{{50 << 10, .7, 1}, {1 << 20, .25, .7}, {5 << 20, .05, .35}}}
}

// Short is a sample of it that takes three minutes: one seed, a shorter time, and none of the largest pages.
func Short() Plan {
	p := Full()
	p.Seeds, p.Window, p.Patience, p.Requests = 1, 6*time.Second, 11*time.Second, 2
	p.Sizes = []Size{{50 << 10, .75, 1}, {1 << 20, .25, .7}}
	return p
}

// Stretch has requests come more slowly where the relays are slower.
func (p *Plan) Stretch() {
	p.Window = time.Duration(float64(p.Window) / p.Scale)
	p.Patience = time.Duration(float64(p.Patience) / p.Scale)
}

// Check returns what is wrong with a plan.
func (p *Plan) Check() error {
	switch {
	case p.Relays < 3 || p.Relays > 100:
		return fault.New(fault.Config, "%d relays: from 3 to 100", p.Relays)
	case p.Clients < 1 || p.Clients > 100:
		return fault.New(fault.Config, "%d clients: from 1 to 100", p.Clients)
	case p.Seeds < 1 || p.Seeds > 100:
		return fault.New(fault.Config, "%d seeds: from 1 to 100", p.Seeds)
	case !(p.Scale >= .1 && p.Scale <= 4):
		return fault.New(fault.Config, "rates scaled by %v: from 0.1 to 4", p.Scale)
	case len(p.Losses) == 0:
		return fault.New(fault.Config, "no loss: 0 is one")
	}
	for i, l := range p.Losses {
		if !(l >= 0 && l <= .1) || slices.Contains(p.Losses[:i], l) {
			return fault.New(fault.Config, "a loss of %v %%: from 0 to 10, each once", l*100)
		}
	}
	return nil
}

// startTime bounds the start of a network, and that of its clients.
const startTime = 90 * time.Second

// settle is how long packets of before may be on their way when the loss is changed.
const settle = 500 * time.Millisecond

// Rates of relays in bits a second, and the one-way delay between two hosts: from twice the least distance to the middle
// of the network to twice the greatest.
const (
	slowest, fastest = 2.5e6, 25e6
	clientRate       = 100e6
	regions          = 8
	nearest          = 5 * time.Millisecond
	farthest         = 40 * time.Millisecond
)

// distance is the one-way delay from a region to the middle of the network. Between two regions, or two hosts of one, is
// the sum of both: 10 to 80 ms.
func distance(region int) time.Duration {
	return nearest + time.Duration(region)*(farthest-nearest)/(regions-1)
}

// Relay is a relay's place.
type Relay struct {
	Name   string
	Rate   int64 // bits a second, each way
	Region int
	Exit   bool
}

// Client is a client's place and work.
type Client struct {
	Name     string
	Region   int
	Path     [3]int // indices of relays
	Requests []Request
}

// Request is one page that a client asks for.
type Request struct {
	At   time.Duration `json:"at"` // after the window has begun, whatever became of those before it
	Size int64         `json:"size"`
}

// Layout is all that a seed decides.
type Layout struct {
	Relays  []Relay
	Clients []Client
}

// Layout returns the places, paths and requests of a seed. It depends on nothing else.
func (p *Plan) Layout(seed int) *Layout {
	luck := rand.New(rand.NewPCG(uint64(seed), 2029))
	l := new(Layout)
	region, exit := luck.Perm(p.Relays), luck.Perm(p.Relays)
	for i := range p.Relays {
		part := float64(i) / float64(p.Relays-1)
		l.Relays = append(l.Relays, Relay{Name: fmt.Sprintf("relay%d", i), Rate: int64(p.Scale * slowest * math.Pow(fastest/slowest, part)),
			Region: region[i] % regions, Exit: exit[i] < max(1, p.Relays/3)})
	}
	sizes := p.deck(luck)
	for i := range p.Clients {
		c := Client{Name: fmt.Sprintf("client%d", i), Region: luck.IntN(regions), Path: l.path(luck)}
		for _, s := range sizes[i*p.Requests : (i+1)*p.Requests] {
			c.Requests = append(c.Requests, Request{time.Duration(luck.Float64() * s.Until * float64(p.Window)), s.Bytes})
		}
		slices.SortFunc(c.Requests, func(a, b Request) int { return int(a.At - b.At) })
		l.Clients = append(l.Clients, c)
	}
	return l
}

// deck returns the sizes of all requests in random order: each has its share of them whatever the seed.
func (p *Plan) deck(luck *rand.Rand) []Size {
	all := p.Clients * p.Requests
	var out []Size
	for _, s := range p.Sizes[1:] {
		for range max(1, int(math.Round(s.Share*float64(all)))) {
			out = append(out, s)
		}
	}
	for len(out) < all {
		out = append(out, p.Sizes[0])
	}
	luck.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// path draws guard, middle and exit by the relays' rates.
func (l *Layout) path(luck *rand.Rand) (out [3]int) {
	guard := l.draw(luck, func(i int) bool { return !l.Relays[i].Exit })
	middle := l.draw(luck, func(i int) bool { return !l.Relays[i].Exit && i != guard })
	return [3]int{guard, middle, l.draw(luck, func(i int) bool { return l.Relays[i].Exit })}
}

func (l *Layout) draw(luck *rand.Rand, may func(int) bool) int {
	var all, sum int64
	for i, r := range l.Relays {
		if may(i) {
			all += r.Rate
		}
	}
	at := luck.Int64N(all)
	for i, r := range l.Relays {
		if may(i) {
			if sum += r.Rate; at < sum {
				return i
			}
		}
	}
	return -1 // not reached: at is below the sum of all
}
