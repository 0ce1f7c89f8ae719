package ctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// poll calls f every few milliseconds until it says done or ctx ends; what is
// the subject of the time-out's error. An error of f is only remembered: a tor
// that has just started may not answer yet.
func poll(ctx context.Context, what string, f func() (done bool, err error)) error {
	for {
		done, err := f()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = context.Cause(ctx)
			}
			return fault.New(fault.Timeout, "%s: %w", what, err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// awaitDescriptors waits until every authority has every router's descriptor.
func (nw *Network) awaitDescriptors(ctx context.Context) error {
	return each(nw.Authorities(), func(a *Node) error {
		c, err := a.Control(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		most := map[string]int{}
		return poll(ctx, a.Name+" waits for descriptors", func() (bool, error) {
			all, err := c.GetInfo(ctx, "desc/all-recent")
			if err != nil {
				return false, err
			}
			var missing []string
			for _, name := range nw.nicknames() {
				if !strings.Contains(all, "router "+name+" ") {
					missing = append(missing, name)
				}
			}
			if len(missing) > 0 {
				return false, fault.New(fault.Directory, "none of %s", strings.Join(missing, ", "))
			}
			if nw.opts.IPv6 {
				return nw.reached(ctx, a, c, most)
			}
			return true, nil
		})
	})
}

// reached reports whether an authority has tested every other router's two
// addresses: it then had two connections at least to each. It closes one of two
// soon, while others are still to come on a busy machine; so most keeps the largest
// number that was seen of each router.
func (nw *Network) reached(ctx context.Context, a *Node, c *Control, most map[string]int) (bool, error) {
	conns, err := c.GetInfo(ctx, "orconn-status")
	if err != nil {
		return false, err
	}
	count := map[string]int{}
	for line := range strings.Lines(conns) {
		if name, state, _ := strings.Cut(strings.TrimSpace(line), " "); state == "CONNECTED" {
			fp, _, _ := strings.Cut(strings.TrimPrefix(name, "$"), "~")
			count[fp]++
		}
	}
	for fp, n := range count {
		most[fp] = max(most[fp], n)
	}
	for _, n := range nw.Routers() {
		if n != a && most[n.ID.RSA.String()] < 2 {
			return false, fault.New(fault.Directory, "%s has not been reached over both IPv4 and IPv6", n.Name)
		}
	}
	return true, nil
}

// awaitCaches waits until every relay can serve the whole directory. A relay
// that asked for the consensus before it existed now waits longer and longer
// between its tries: a reload makes it try at once.
func (nw *Network) awaitCaches(ctx context.Context) error {
	return each(append(nw.ByRole(Relay), nw.ByRole(Exit)...), func(n *Node) error {
		c, err := n.Control(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		var reloaded time.Time
		return poll(ctx, n.Name+" fetches the directory", func() (bool, error) {
			mds, err := c.GetInfo(ctx, "md/all")
			if err != nil {
				return false, err
			}
			enough, err := c.GetInfo(ctx, "status/enough-dir-info")
			if err != nil {
				return false, err
			}
			if have := strings.Count("\n"+mds, "\nonion-key"); enough != "1" || have < len(nw.nicknames()) {
				if time.Since(reloaded) > 500*time.Millisecond {
					reloaded = time.Now()
					err = c.Signal(ctx, "RELOAD")
				}
				return false, errors.Join(err, fault.New(fault.Directory, "it has %d of %d microdescriptors", have, len(nw.nicknames())))
			}
			return true, nil
		})
	})
}

// firstVote makes the authorities vote, and waits until each has a consensus
// that lists every router. A vote that fails because the machine is too slow
// is held again, at half the pace or less: tor gives the exchange of votes, and
// that of signatures, a quarter of the interval at most.
func (nw *Network) firstVote(ctx context.Context) error {
	var err error
	for _, interval := range []int{5, 10, 20, 60} {
		delay := interval / 4
		at := time.Now().Unix() + 2 + int64(2*delay)
		if interval == 5 {
			at--
		}
		if err = nw.scheduleVote(ctx, interval, max(2, delay), at); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, time.Until(time.Unix(at+int64(max(3, delay)), 0)))
		err = each(nw.Authorities(), func(a *Node) error { return a.awaitListed(wait, nw.nicknames()) })
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		nw.log.Warn("private network: the vote failed", "interval", interval, "err", err)
	}
	return err
}

// Vote makes the authorities that run vote now instead of at the end of the
// voting interval, and waits for a new consensus that lists the given relays. A
// vote that fails because the machine is too slow is held again.
func (nw *Network) Vote(ctx context.Context, relays ...*Node) error {
	before := time.Now()
	running := nw.runningAuthorities()
	for _, pace := range []int64{6, 10, 20, 30} {
		at := time.Now().Unix() + pace
		if err := nw.scheduleVote(ctx, holdInterval, 2, at); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, time.Until(time.Unix(at+pace/2, 0)))
		err := each(running, func(a *Node) error { return a.awaitConsensusAfter(wait, before) })
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil || pace == 30 {
			return err
		}
		nw.log.Warn("private network: the vote failed", "err", err)
	}
	return nw.AwaitConsensus(ctx, relays...)
}

// scheduleVote sets the authorities' voting offset so that a consensus becomes
// valid at the given second. The interval, and how long votes and signatures
// have, in seconds, are for authorities that have no consensus.
func (nw *Network) scheduleVote(ctx context.Context, interval, delay int, at int64) error {
	modulus := int64(interval)
	if interval == holdInterval {
		modulus = int64(nw.opts.VotingInterval / time.Second)
	}
	offset := at % 86400 % modulus
	return each(nw.runningAuthorities(), func(a *Node) error {
		c, err := a.Control(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.SetConf(ctx,
			fmt.Sprintf("TestingV3AuthInitialVotingInterval=%d", interval),
			fmt.Sprintf("TestingV3AuthInitialVoteDelay=%d", delay),
			fmt.Sprintf("TestingV3AuthInitialDistDelay=%d", delay),
			fmt.Sprintf("TestingV3AuthVotingStartOffset=%d", offset))
	})
}

func (nw *Network) runningAuthorities() []*Node {
	return slices.DeleteFunc(nw.Authorities(), func(n *Node) bool { return n.PID() == 0 })
}

// AwaitConsensus waits until every authority that runs has a consensus that
// lists the given relays as running.
func (nw *Network) AwaitConsensus(ctx context.Context, relays ...*Node) error {
	return each(nw.runningAuthorities(), func(a *Node) error { return a.AwaitConsensus(ctx, relays...) })
}

// AwaitConsensus waits until the node has a consensus that lists the given
// relays as running.
func (n *Node) AwaitConsensus(ctx context.Context, relays ...*Node) error {
	return n.awaitListed(ctx, namesOf(relays))
}

func (n *Node) awaitListed(ctx context.Context, names []string) error {
	c, err := n.Control(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return poll(ctx, n.Name+" waits for a consensus", func() (bool, error) {
		ns, err := c.GetInfo(ctx, "ns/all")
		if err != nil {
			return false, err
		}
		if ns == "" {
			return false, fault.New(fault.Directory, "it has none")
		}
		for _, name := range names {
			if !lists(ns, name) {
				return false, fault.New(fault.Directory, "its consensus lacks %s", name)
			}
		}
		return true, nil
	})
}

// lists reports whether the router-status entries in ns have a running relay of
// this nickname.
func lists(ns, name string) bool {
	entry := false
	for line := range strings.Lines(ns) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "r":
			entry = f[1] == name
		case entry && len(f) > 0 && f[0] == "s":
			return slices.Contains(f, "Running")
		}
	}
	return false
}

// awaitConsensusAfter waits for a consensus that became valid after t.
func (n *Node) awaitConsensusAfter(ctx context.Context, t time.Time) error {
	c, err := n.Control(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return poll(ctx, n.Name+" waits for a new consensus", func() (bool, error) {
		v, err := c.GetInfo(ctx, "consensus/valid-after")
		if err != nil {
			return false, err
		}
		va, err := time.Parse(time.DateTime, v)
		return err == nil && va.After(t), err
	})
}

// AwaitBootstrap waits until the node says that its bootstrap is at 100 %.
func (n *Node) AwaitBootstrap(ctx context.Context) error {
	c, err := n.Control(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return poll(ctx, n.Name+" bootstraps", func() (bool, error) {
		v, err := c.GetInfo(ctx, "status/bootstrap-phase")
		if err != nil {
			return false, err
		}
		if !strings.Contains(v, "PROGRESS=100 ") {
			return false, fault.New(fault.Directory, "%s", v)
		}
		return true, nil
	})
}
