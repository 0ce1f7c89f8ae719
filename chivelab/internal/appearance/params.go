package appearance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/panics"
)

// paramStep is a change of the consensus's parameters while clients run.
type paramStep struct {
	name   string
	params map[string]int // besides those of the network
}

// paramSteps are the changes, in their order. Their parameters are those that a guard or an exit sees a client obey, with values that
// differ from the defaults as far as they may.
var paramSteps = []paramStep{
	{"first", map[string]int{"nf_pad_before_usage": 0, "cfx_max_prebuilt_set": 1}},
	{"second", map[string]int{"nf_ito_low": 1000, "nf_ito_high": 1500, "cfx_enabled": 0, "circpad_padding_disabled": 1, "guard-n-primary-guards-to-use": 3, "ExtendByEd25519ID": 0}},
}

// Marks of a change, with the step's name behind.
const (
	markHas  = "has "  // the client has the consensus with the new parameters
	markRest = "rest " // it has rested with it, and is used
	markUsed = "used " // it was used, and rests again
	markOver = "over "
)

// Times of a change. C tor's client looks once a minute whether it should fetch a consensus.
const (
	paramVoting = 20 * time.Second
	paramIdle   = 5 * time.Second
	paramRest   = 30 * time.Second
	paramLater  = 10 * time.Second
)

// paramLayout is where it happens: no bridges, as their clients fetch when the consensus ends.
var paramLayout = layout{relays: recording.relays, exits: recording.exits, onion: true, voting: paramVoting}

// ParamPlan says whose reaction to new parameters of the consensus to compare.
type ParamPlan struct {
	Tor      string // the program of the authorities and of the onion service; empty: "tor" in PATH
	Subjects [2]Subject
	Clients  int // of each subject
	Log      *slog.Logger
}

// change is a step while it happens.
type change struct {
	paramStep
	done  chan struct{} // closed when the relays have the new parameters
	since time.Time     // their consensus's begin, once done is closed
}

// Params lets clients of both programs run while the authorities change the consensus's parameters, and compares what they do then.
func Params(ctx context.Context, p ParamPlan) (rows []Row, err error) {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	nw, err := startNetwork(ctx, p.Tor, paramLayout, p.Log)
	if err != nil {
		return nil, err
	}
	closed := sync.OnceValue(nw.close)
	defer func() { err = errors.Join(err, closed()) }()
	var clients []*client
	for n := range p.Clients {
		for i := range p.Subjects {
			s := p.Subjects[i]
			if !s.Chive { // it refuses a consensus that is fresh for so short a time else
				s.Torrc = append(slices.Clone(s.Torrc), "TestingTorNetwork 1")
			}
			c, err := nw.newClient(2*n+i, &s, asClient)
			if err != nil {
				return nil, err
			}
			clients = append(clients, c)
		}
	}
	var changes []*change
	for _, s := range paramSteps {
		changes = append(changes, &change{paramStep: s, done: make(chan struct{})})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(clients)+1)
	var wg sync.WaitGroup
	ready := make(chan struct{})
	run := func(i int, f func() error) {
		wg.Go(panics.Contain(p.Log, func(err error) { errs[i] = err; cancel() }, func() {
			if errs[i] = f(); errs[i] != nil {
				cancel()
			}
		}))
	}
	for i, c := range clients {
		run(i, func() error { return c.obey(ctx, nw, ready, changes) })
	}
	run(len(clients), func() error { return nw.change(ctx, len(clients), ready, changes) })
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := closed(); err != nil {
		return nil, err
	}
	s := new(Seen)
	for _, c := range clients {
		s.views = append(s.views, nw.rec.view(c))
	}
	return s.compare(in(asClient, paramFeatures()), p.Subjects[0].Name, p.Subjects[1].Name), nil
}

// change has the authorities vote for each step's parameters, when all clients are ready for it.
func (nw *network) change(ctx context.Context, clients int, ready <-chan struct{}, changes []*change) error {
	params := maps.Clone(publicParams)
	for _, c := range changes {
		for range clients {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil // one of the clients says why
			}
		}
		maps.Copy(params, c.params)
		var words []string
		for _, name := range slices.Sorted(maps.Keys(params)) {
			words = append(words, fmt.Sprintf("%s=%d", name, params[name]))
		}
		for _, a := range nw.tor.Authorities() {
			ctl, err := a.Control(ctx)
			if err != nil {
				return err
			}
			err = ctl.SetConf(ctx, "ConsensusParams="+strings.Join(words, " "))
			if err = errors.Join(err, ctl.Close()); err != nil {
				return err
			}
		}
		for _, r := range nw.relays {
			for {
				d := r.Directory()
				if d != nil && obeys(d.Param, c.params) {
					if c.since.Before(d.ValidAfter()) {
						c.since = d.ValidAfter()
					}
					break
				}
				if err := pause(ctx, 100*time.Millisecond); err != nil {
					return fault.New(fault.KindOf(err), "a relay waits for new parameters: %w", err)
				}
			}
		}
		close(c.done)
	}
	return nil
}

// obeys reports whether a consensus has these parameters.
func obeys(param func(name string, def, lo, hi int32) int32, want map[string]int) bool {
	for name, v := range want {
		if param(name, -1, -1, 1<<30) != int32(v) {
			return false
		}
	}
	return true
}

// obey is the script of a client whose consensus changes.
func (c *client) obey(ctx context.Context, nw *network, ready chan<- struct{}, changes []*change) error {
	c.mark(markStart)
	ctl, err := c.start(ctx, nw)
	if err != nil {
		return err
	}
	defer ctl.Close()
	c.mark(markUp)
	if err := pause(ctx, paramIdle); err != nil {
		return err
	}
	for _, x := range changes {
		select {
		case ready <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%s: new parameters: %w", c.subject.Name, context.Cause(ctx))
		}
		if err := c.through(ctx, nw, ctl, x); err != nil {
			return err
		}
	}
	c.mark(markTerm)
	return c.proc.Stop()
}

// through lives with one change.
func (c *client) through(ctx context.Context, nw *network, ctl *ctor.Control, x *change) error {
	err := c.await(ctx, func() error {
		v, err := ctl.GetInfo(ctx, "consensus/valid-after")
		if err != nil {
			return err
		}
		at, err := time.Parse(time.DateTime, v)
		if err == nil && at.Before(x.since) {
			err = fault.New(fault.Directory, "the consensus is of %v", at)
		}
		return err
	})
	if err != nil {
		return err
	}
	c.mark(markHas + x.name)
	if err := pause(ctx, paramRest); err != nil {
		return err
	}
	c.mark(markRest + x.name)
	for range 2 {
		if err := c.ping(ctx, nw); err != nil {
			return fault.New(fault.KindOf(err), "%s: a ping: %w", c.subject.Name, err)
		}
	}
	if err := get(ctx, c.socks, nw.onion+":80", "/bytes/20000", 20_000); err != nil {
		return fault.New(fault.KindOf(err), "%s: the onion service: %w", c.subject.Name, err)
	}
	c.mark(markUsed + x.name)
	if err := pause(ctx, paramLater); err != nil {
		return err
	}
	c.mark(markOver + x.name)
	return nil
}
