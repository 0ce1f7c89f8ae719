package relay

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
)

const (
	reachTimeout  = 30 * time.Second
	reachRetry    = 10 * time.Second
	reachRetryMax = 20 * time.Minute
)

// testReachability builds circuits through other relays back to each address of
// this relay's ORPort, until all of them work or ctx is done.
func (r *Relay) testReachability(ctx context.Context) bool {
	for wait := reachRetry; r.acct.await(ctx, awake); wait = min(2*wait, reachRetryMax) {
		err := r.reachOnce(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		r.log.Warn("the ORPort could not be reached from outside yet: check the address, the firewall and port forwarding", "err", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
	return false
}

func (r *Relay) reachOnce(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	d, err := r.dirs.Wait(wait)
	if err != nil {
		return err
	}
	return r.reachIn(ctx, d)
}

// reachIn tests each address by the relays of d.
func (r *Relay) reachIn(ctx context.Context, d *netdir.Directory) error {
	var missed error
	for _, a := range r.Addrs() {
		self := r.Target()
		self.Addrs = self.Addrs[:0:0]
		self.Addrs = append(self.Addrs, a)
		if err := r.reachThrough(ctx, d, self); err != nil {
			if !assumeReachable(d, a.Addr()) {
				return err
			}
			missed = err
		}
	}
	if missed != nil {
		r.log.Warn("the ORPort could not be reached from outside, but the consensus says that relays publish all the same", "err", missed)
	} else {
		r.log.Info("the ORPort can be reached from outside")
	}
	return nil
}

// assumeReachable reports whether relays publish although the test of an address failed: the
// consensus says so while a flood on the network makes the tests fail (param-spec).
func assumeReachable(d *netdir.Directory, a netip.Addr) bool {
	return d.Param("assume-reachable", 0, 0, 1) == 1 || a.Is6() && d.Param("assume-reachable-ipv6", 0, 0, 1) == 1
}

// reachThrough builds a circuit over two relays of the network back to self. A
// relay extends no circuit back to where it came from, hence two. The second one
// opens a link to the address, unless it already has a suitable one.
func (r *Relay) reachThrough(ctx context.Context, d *netdir.Directory, self linkspec.Target) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	first, second, err := r.testers(d, self)
	if err != nil {
		return err
	}
	ch, err := r.channels.Get(ctx, first.Target())
	if err != nil {
		return err
	}
	opts := circuit.HopOptions{Flow: r.flow.Load()}
	circ, err := circuit.Create(ctx, r.env, ch, first.Target(), opts)
	if err != nil {
		return err
	}
	if err := circ.Extend(ctx, second.Target(), opts); err != nil {
		return err
	}
	if err := circ.Extend(ctx, self, opts); err != nil {
		return err
	}
	return exercise(circ)
}

// testers picks the relays of a test. The second is one to which this relay has opened no
// link, if there is one: it would extend the circuit over that link, which may rest for an
// hour, and the test would succeed behind a firewall, too.
func (r *Relay) testers(d *netdir.Directory, self linkspec.Target) (first, second netdir.Relay, err error) {
	linked := map[ident.RSAID]bool{}
	for _, ch := range r.channels.Channels() {
		if ch.Link().Initiator {
			linked[ch.Peer().RSA] = true
		}
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	pick := func(ok func(netdir.Relay) bool) (netdir.Relay, bool) {
		return d.Pick(rng, netdir.PosMiddle, func(x netdir.Relay) bool {
			return x.HasMicrodesc() && !x.RSA().Equal(self.RSA) && ok(x)
		})
	}
	reaches := func(x netdir.Relay) bool {
		_, six := x.IPv6()
		return six || !self.Addrs[0].Addr().Is6()
	}
	second, ok := pick(func(x netdir.Relay) bool { return reaches(x) && !linked[x.RSA()] })
	if !ok {
		second, ok = pick(reaches)
	}
	if ok {
		first, ok = pick(func(x netdir.Relay) bool { return x.RSA() != second.RSA() })
	}
	if !ok {
		return first, second, fault.New(fault.Directory, "too few other relays are known")
	}
	return first, second, nil
}

const (
	exerciseCells = 1000
	exerciseTime  = 5 * time.Second
)

// exercise sends cells around the circuit, for the first estimate of the relay's
// bandwidth: clients do not use a relay without observed bandwidth, and so it
// would never have any. exercise closes the circuit later.
func exercise(circ *circuit.Circuit) error {
	for range exerciseCells {
		if err := circ.Last().Send(cell.RelayDrop, 0, nil); err != nil {
			return err
		}
	}
	time.AfterFunc(exerciseTime, panics.Contain(nil, nil, func() {
		circ.Close(cell.DestroyNone, fault.New(fault.Closed, "the test is over"))
	}))
	return nil
}
