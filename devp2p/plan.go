package devp2p

import (
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
)

// errNoAddr says that a node's record has no address to dial.
var errNoAddr = errors.New("the node has no IP address and port")

// plan returns the ways to a node in the order in which they are tried: one or two. An
// error says why the policy has none. explore allows the way that is not the best.
func (t *Transport) plan(n *enode.Node, explore bool) ([]Route, error) {
	_, _, onionErr := OnionOf(n)
	_, hasAddr := n.TCPEndpoint()
	hasOnion := onionErr == nil
	switch p := t.cfg.Policy; {
	case p == OnlyOnion && hasOnion:
		return []Route{{Onion: true, Why: "policy only-onion"}}, nil
	case p == Clearnet && hasAddr:
		return []Route{{Why: "policy clearnet"}}, nil
	case p == OnlyOnion:
		return nil, fmt.Errorf("devp2p: policy %s: %w", p, onionErr)
	case p == Clearnet:
		return nil, fmt.Errorf("devp2p: policy %s: %w", p, errNoAddr)
	case hasOnion && !hasAddr:
		return []Route{{Onion: true, Why: "the node has no address"}}, nil
	case !hasOnion && hasAddr:
		return []Route{{Why: onionErr.Error()}}, nil
	case !hasOnion:
		return nil, fmt.Errorf("devp2p: policy %s: %w, and %w", p, onionErr, errNoAddr)
	case p == PreferOnion:
		return []Route{
			{Onion: true, Why: "policy prefer-onion"},
			{Why: fmt.Sprintf("the onion did not answer within %v", t.cfg.FallbackAfter)},
		}, nil
	}
	return t.adapt(n.ID(), explore), nil
}

// What Adaptive does when both ways are open.
const (
	// A way takes the place of the other only if its cost is lower by this factor, so
	// that two ways with about the same cost do not alternate.
	hysteresis = 0.7
	// exploreNew and exploreKnown are the shares of dials that try the way that is not
	// the best: one without a measurement, and one whose measurement is not old.
	exploreNew   = 0.25
	exploreKnown = 1.0 / 16
	// A measurement that is older counts as none.
	measureLife = time.Hour
)

// adapt orders both ways to a node by what they cost.
func (t *Transport) adapt(id enode.ID, explore bool) []Route {
	onion, addr := t.book.get(id, true), t.book.get(id, false)
	now := time.Now()
	knowOnion, knowAddr := onion.fresh(now), addr.fresh(now)
	// With no measurement, the onion is first: it says the least about this node.
	first := Route{Onion: true, Why: "nothing is measured yet, and the onion says less about this node"}
	switch {
	case knowOnion && knowAddr:
		first = compare(t.book.last(id), onion.Cost(), addr.Cost())
	case knowOnion:
		first = Route{Onion: true, Why: fmt.Sprintf("it costs %v, and the address is not measured", brief(onion.Cost()))}
		if onion.Failures > 0.5 {
			first = Route{Why: "the onion failed, and the address is not measured"}
		}
	case knowAddr:
		first = Route{Why: fmt.Sprintf("it costs %v, and the onion is not measured", brief(addr.Cost()))}
		if addr.Failures > 0.5 {
			first = Route{Onion: true, Why: "the address failed, and the onion is not measured"}
		}
	}
	second := Route{Onion: !first.Onion, Why: fmt.Sprintf("the %s failed", wayName(first.Onion))}
	chance := exploreKnown
	if knows := map[bool]bool{true: knowOnion, false: knowAddr}; !knows[second.Onion] {
		chance = exploreNew
	}
	if explore && (knowOnion || knowAddr) && t.coin() < chance {
		return []Route{
			{Onion: second.Onion, Why: "to measure it again"},
			{Onion: first.Onion, Why: fmt.Sprintf("the %s failed when it was measured again", wayName(second.Onion))},
		}
	}
	return []Route{first, second}
}

// compare chooses between two measured ways: the last one stays unless the other one is
// clearly better.
func compare(last way, onion, addr time.Duration) Route {
	r := Route{Onion: onion <= addr}
	mine, other := onion, addr
	if !r.Onion {
		mine, other = addr, onion
	}
	if last != wayNone && (last == wayOnion) != r.Onion && float64(mine) > hysteresis*float64(other) {
		r.Onion = !r.Onion
		r.Why = fmt.Sprintf("it costs %v and the %s %v: too small a difference for a change", brief(other), wayName(!r.Onion), brief(mine))
		return r
	}
	r.Why = fmt.Sprintf("it costs %v, and the %s %v", brief(mine), wayName(!r.Onion), brief(other))
	return r
}

// brief rounds a duration for people.
func brief(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}
