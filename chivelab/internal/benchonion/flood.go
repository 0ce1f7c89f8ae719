package benchonion

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// Flood is what a service and its honest clients suffer from a flood of introductions.
type Flood struct {
	Service  string           `json:"service"`
	Work     bool             `json:"proof_of_work"` // whether the service asks for it
	Rate     int              `json:"rate"`          // introductions per second that were ordered
	Seconds  float64          `json:"seconds"`
	Attacker AttackCounts     `json:"attacker"`
	Connects int              `json:"connects"` // by honest clients, each over a new rendezvous
	InTime   float64          `json:"in_time"`  // the share of them that got a byte within honestPatience
	Took     *measure.Latency `json:"took,omitempty"`
	Before   float64          `json:"rss_before_mb"`
	RSS      float64          `json:"rss_most_mb"` // of the service
	CPU      float64          `json:"cpu_s"`       // of the service
}

const (
	// honestPatience is how long an honest client waits, and honestPause the time
	// between two of their connections.
	honestPatience = 5 * time.Second
	honestPause    = 250 * time.Millisecond
	// floodShare is the share of honest clients that must connect in time.
	floodShare = 0.95
	// floodMemory is what the service may use besides what it had before, in MB: the
	// bound on what others make it hold is larger.
	floodMemory = 64
)

// floods attacks C tor's service and Chive's, one after the other, over relays of C tor;
// and then again, with services that ask for proofs of work.
func (s *site) floods(ctx context.Context) (out []Flood, err error) {
	if s.FloodTime == 0 {
		return nil, nil
	}
	for _, p := range s.pairs[:2] {
		if out, err = s.addFlood(ctx, out, p, false); err != nil {
			return nil, err
		}
	}
	for _, start := range []func() (*pair, error){
		func() (*pair, error) { return s.torPair(ctx, s.tor, "HiddenServicePoWDefensesEnabled 1") },
		func() (*pair, error) { return s.chivePair(ctx, "Chive", &s.tor.network, "--pow-defense") },
	} {
		p, err := start()
		if err != nil {
			return nil, err
		}
		if err = p.await(ctx); err == nil {
			out, err = s.addFlood(ctx, out, p, true)
		}
		p.close()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *site) addFlood(ctx context.Context, out []Flood, p *pair, work bool) ([]Flood, error) {
	what := "a flood of introductions: " + p.name
	if work {
		what += ", with proofs of work"
	}
	s.Progress(what)
	f, err := s.flood(ctx, p)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%s: %w", what, err)
	}
	f.Work = work
	return append(out, *f), nil
}

func (s *site) flood(ctx context.Context, p *pair) (*Flood, error) {
	order, err := s.order(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &Flood{Service: p.name, Rate: order.Rate, Seconds: order.Time.Seconds()}
	before, err := proc.Of(p.service)
	if err != nil {
		return nil, err
	}
	out.Before = float64(before.RSS) / 1e6
	ctx, cancel := context.WithTimeout(ctx, order.Time+time.Minute)
	defer cancel()
	attacker, err := s.attack(ctx, *order)
	if err != nil {
		return nil, err
	}
	defer attacker.Kill() // it has ended, unless something failed
	var mu sync.Mutex     // guards took and out.RSS
	var took []time.Duration
	var wg sync.WaitGroup
	tick := time.NewTicker(honestPause)
	defer tick.Stop()
	for end := time.Now().Add(order.Time); time.Now().Before(end); {
		out.Connects++
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, honestPatience)
			defer cancel()
			began := time.Now()
			if p.hello(ctx, p.host) != nil {
				return // it was not in time
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
		u, err := proc.Of(p.service)
		if err != nil {
			wg.Wait()
			return nil, fault.New(fault.Local, "the service ended: %w", err)
		}
		out.RSS = max(out.RSS, float64(u.RSS)/1e6)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	wg.Wait()
	after, err := proc.CPU(p.service)
	if err != nil {
		return nil, fault.New(fault.Local, "the service ended: %w", err)
	}
	out.CPU = (after - before.CPU).Seconds()
	if out.InTime = float64(len(took)) / float64(out.Connects); len(took) > 0 {
		out.Took = measure.NewLatency(took)
	}
	select {
	case <-attacker.Done():
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the attacker does not end: %w", context.Cause(ctx))
	}
	if err := json.Unmarshal([]byte(attacker.LastWords()), &out.Attacker); err != nil {
		return nil, fault.New(fault.Local, "the attacker said %q: %w", attacker.LastWords(), err)
	}
	return out, nil
}

// attack starts an attacker, with a low priority: it has the processors of those whom
// it attacks.
func (s *site) attack(ctx context.Context, o AttackOrder) (*child.Process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	cmd := exec.Command("nice", append([]string{"-n", "10"}, s.Attacker...)...)
	cmd.Stdin = strings.NewReader(string(text))
	p, _, err := child.Run(ctx, nil, cmd, func(line string) bool { return line == "ready" })
	return p, err
}

// order is what attackers do who know the service's address: they ask for its
// descriptor as everybody does.
func (s *site) order(ctx context.Context, p *pair) (*AttackOrder, error) {
	spy := s.pairs[0]
	if err := spy.hello(ctx, p.host); err != nil {
		return nil, err
	}
	control, err := spy.stranger.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	text, err := control.GetInfo(ctx, "hs/client/desc/id/"+strings.TrimSuffix(p.host, ".onion"))
	if err != nil {
		return nil, err
	}
	desc, err := netdoc.ParseHSDescriptor([]byte(strings.TrimSpace(text)+"\n"), time.Now())
	if err != nil {
		return nil, err
	}
	id, err := hscrypto.ParseAddress(p.host)
	if err != nil {
		return nil, err
	}
	o := &AttackOrder{Subcredential: hscrypto.Subcredential(id, desc.Blinded), Rate: s.FloodRate, Time: s.FloodTime}
	inner, err := desc.Open(o.Subcredential, nil)
	if err != nil {
		return nil, err
	}
	for _, ip := range inner.Points {
		t, err := linkspec.TargetOf(ip.Specs)
		if err != nil {
			return nil, err
		}
		t.Ntor = ip.Onion
		o.Points = append(o.Points, Point{Hop: hopOf(t), Auth: ip.Auth, Enc: ip.Enc})
	}
	var corners [3]cornerRelay
	for i := range corners {
		corners[i].nickname = fmt.Sprint("relay", i)
	}
	targets, err := targetsOf(ctx, &s.tor.network, corners)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		o.Entries, o.Rendezvous = append(o.Entries, hopOf(t)), append(o.Rendezvous, hopOf(t))
	}
	slices.Reverse(o.Rendezvous)
	return o, o.check()
}
