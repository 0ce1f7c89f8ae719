package devp2p

import (
	"fmt"
	"strings"
)

// A Policy says how nodes may be reached.
type Policy string

// The policies.
const (
	// Clearnet uses addresses of nodes only. It is for comparison.
	Clearnet Policy = "clearnet"
	// PreferOnion uses a node's onion if it has one, and its address if it has none, or
	// if the onion did not answer in time.
	PreferOnion Policy = "prefer-onion"
	// OnlyOnion never sends anything outside Tor: no address is dialled, none is
	// listened on but loopback, and no name is looked up.
	OnlyOnion Policy = "only-onion"
	// Adaptive chooses by what was measured, for each peer and each class of messages.
	// Messages that must stay private leave through onions only.
	Adaptive Policy = "adaptive"
)

// Policies are all policies, in the order of help texts.
var Policies = []Policy{Clearnet, PreferOnion, OnlyOnion, Adaptive}

// ParsePolicy reads a policy by its name.
func ParsePolicy(s string) (Policy, error) {
	names := make([]string, len(Policies))
	for i, p := range Policies {
		if s == string(p) {
			return p, nil
		}
		names[i] = string(p)
	}
	return "", fmt.Errorf("devp2p: policy %q: want one of %s", s, strings.Join(names, ", "))
}

// AllowsClearnet reports whether connections outside Tor are allowed at all.
func (p Policy) AllowsClearnet() bool { return p != OnlyOnion }

// AllowsOnion reports whether onions are used.
func (p Policy) AllowsOnion() bool { return p != Clearnet }
