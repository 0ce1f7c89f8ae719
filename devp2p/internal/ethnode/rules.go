package ethnode

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chivenet/chive/devp2p"
)

// A Way says by which peers a class may go.
type Way string

// The ways.
const (
	ByAny     Way = "any"      // by each peer
	ByOnion   Way = "onion"    // by peers that are reached by onions
	ByAddress Way = "clearnet" // by peers that are reached by addresses
)

var ways = []Way{ByAny, ByOnion, ByAddress}

// announced is the class of hashes of transactions. The other classes are those of requests.
const announced = "announcements"

// Classes are the classes of Rules, in the order of help texts and status.
var Classes = []string{transactions.rule(), announced, headers.rule(), bodies.rule(), receipts.rule(), accessLists.rule()}

// groups are names for several classes.
var groups = map[string][]string{
	"all":    Classes,
	"gossip": {transactions.rule(), announced},
	"bulk":   {bodies.rule(), receipts.rule(), accessLists.rule()},
}

// Groups returns the names that stand for several classes.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

// rule is the class's name in Rules.
func (c *class) rule() string { return strings.ReplaceAll(c.name, " ", "-") }

// Rules say which class may go by which peers, in both directions. A class that is not there may go
// by each peer. The handshake and the newest blocks' numbers are of no class: each peer gets them.
// Transactions of the user go by onions, whatever the rules.
type Rules map[string]Way

// ParseRules reads rules: CLASS=WAY, separated by commas. What comes later takes the place of what
// came before. A way that the policy does not have is an error.
func ParseRules(text string, policy devp2p.Policy) (Rules, error) {
	rules := make(Rules)
	if text == "" {
		return rules, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		way := Way(value)
		if !ok || !slices.Contains(ways, way) {
			return nil, fmt.Errorf("%q is not CLASS=WAY, where WAY is any, onion or clearnet", part)
		}
		if way == ByOnion && !policy.AllowsOnion() || way == ByAddress && !policy.AllowsClearnet() {
			return nil, fmt.Errorf("%s: policy %s has no peers of that kind", strings.TrimSpace(part), policy)
		}
		classes, ok := groups[name]
		if !ok {
			classes = []string{name}
		}
		for _, c := range classes {
			if !slices.Contains(Classes, c) {
				return nil, fmt.Errorf("class %q: want one of %s, or for several of them one of %s", name, strings.Join(Classes, ", "), strings.Join(Groups(), ", "))
			}
			rules[c] = way
		}
	}
	return rules, nil
}

// way returns the way of a class.
func (r Rules) way(class string) Way {
	if w, ok := r[class]; ok {
		return w
	}
	return ByAny
}

// may reports whether a class may go by a peer now. As long as it is not known how the peer is
// reached, sure is false, and only what may go by each peer may go.
func (n *Node) may(class string, p *peer) (may, sure bool) {
	w := n.config.Rules.way(class)
	if w == ByAny {
		return true, true
	}
	r, known := n.routeKnown(p)
	return known && r.Onion == (w == ByOnion), known
}

// allows is may, for those who do not wait until it is known how the peer is reached.
func (n *Node) allows(class string, p *peer) bool {
	may, _ := n.may(class, p)
	return may
}

// bar counts a message that the rules kept back.
func (n *Node) bar(class string) {
	n.counts.mu.Lock()
	defer n.counts.mu.Unlock()
	if n.counts.barred == nil {
		n.counts.barred = make(map[string]uint64)
	}
	n.counts.barred[class]++
}

// A ClassStatus is a row of the rules as status shows it.
type ClassStatus struct {
	Class  string `json:"class"`
	Way    Way    `json:"way"`
	Peers  int    `json:"peers"`  // that it may go by now
	Barred uint64 `json:"barred"` // messages that were kept back: dropped, or answered with nothing
}

// rulesStatus returns the rules, and what came of them.
func (n *Node) rulesStatus() []ClassStatus {
	var out []ClassStatus
	for _, c := range Classes {
		s := ClassStatus{Class: c, Way: n.config.Rules.way(c)}
		for _, p := range n.list() {
			if n.allows(c, p) {
				s.Peers++
			}
		}
		n.counts.mu.Lock()
		s.Barred = n.counts.barred[c]
		n.counts.mu.Unlock()
		out = append(out, s)
	}
	return out
}
