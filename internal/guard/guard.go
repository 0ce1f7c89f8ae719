// Package guard decides which relay a client connects to first (guard-spec).
//
// A client that chose its first hop anew for every circuit would sooner or
// later choose a hostile one. So a Manager keeps a small sample of guards
// across restarts, prefers those that it has used, in the order in which it
// first used them, and goes further down that order only when it is sure that
// the better ones are down:
//
//	relays with the Guard flag
//	  └ sampled      drawn by bandwidth, kept for months
//	     ├ confirmed a circuit through it was used; ordered
//	     └ filtered  listed now, and allowed by the configuration
//	        └ primary the first few: always tried before any other
//
// There is ONE such sample for all isolation: separate identities of a user
// share their guards. A circuit through a guard that is not primary is not
// used at once, because a better one may be about to work; a Use tells its
// circuit whether to go on, to wait, or to give up.
//
// A Manager is safe for concurrent use. It starts no goroutine and reads no
// clock: every call takes the time, and Tick says when it wants to be called.
package guard

import (
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// Candidate is a relay that may be a guard, as the newest consensus (or, for a
// bridge, the configuration) describes it.
type Candidate struct {
	ID       ident.RelayID    // the RSA identity is always there; Ed25519 when known
	Nickname string           // empty for a bridge
	Addrs    []netip.AddrPort // ORPorts
	Weight   uint64           // bandwidth, weighted for the guard position
	Complete bool             // its microdescriptor (bridge: descriptor) is here

	// A bridge is reached as the configuration says, even when a consensus
	// lists it, and with the keys of its own descriptor.
	Bridge bool
	Ntor   ident.X25519Key // zero before its descriptor is here
	Proto  protover.Set
}

// Directory is what a Manager needs of one consensus. It does not change.
type Directory interface {
	ValidAfter() time.Time
	ValidUntil() time.Time
	// Param returns a consensus parameter, clamped to [lo, hi], or def.
	Param(name string, def, lo, hi int32) int32
	// Guards yields every relay that is usable as a guard for all circuits
	// and directory requests: flags Running, Valid, Guard, Stable, Fast and
	// V2Dir (guard-spec, section GUARDS).
	Guards() iter.Seq[Candidate]
	// Guard returns one of them.
	Guard(id ident.RSAID) (Candidate, bool)
}

// Filter is the part of the configuration that forbids guards. Nil functions
// forbid nothing. They are called with the Manager locked, and must not call
// it.
type Filter struct {
	Exclude   func(Candidate) bool      // relays never to be used
	Entry     func(Candidate) bool      // when set, the only relays to be used first
	Reachable func(netip.AddrPort) bool // addresses that can be connected to
}

// allows reports whether the configuration lets c be a guard.
func (f *Filter) allows(c Candidate) bool {
	if f.Exclude != nil && f.Exclude(c) || f.Entry != nil && !f.Entry(c) {
		return false
	}
	if f.Reachable == nil {
		return true
	}
	for _, a := range c.Addrs {
		if f.Reachable(a) {
			return true
		}
	}
	return false
}

// Config says how a Manager works.
type Config struct {
	Filter Filter
	// Bridges, when not empty, replace the consensus's guards: they and only
	// they are the sample, which is kept apart from the other one.
	Bridges []Candidate
	// UseBridges keeps it so when Bridges is empty: nothing can be picked then.
	UseBridges bool
	// NumTraffic and NumDirectory, when not zero, replace the consensus's
	// number of primary guards to choose among, for traffic and for directory
	// requests (C tor's NumEntryGuards and NumDirectoryGuards).
	NumTraffic, NumDirectory int
	// Version is recorded with every guard that is sampled.
	Version string
	// Rand draws guards and dates; it must be unpredictable, such as
	// rand.New(rand.NewChaCha8(seed)) with a seed of crypto/rand.
	Rand *rand.Rand
	Log  *slog.Logger
}

// Purpose is what a circuit is for.
type Purpose uint8

// Purposes of circuits.
const (
	Traffic       Purpose = iota // several hops
	Directory1Hop                // one hop, for directory requests
)

// Request asks for a guard for one circuit.
type Request struct {
	Purpose Purpose
	// Allow, when set, is the restriction that the rest of the path puts on
	// the guard, such as "not the exit, nor of its family". It is called with
	// the Manager locked, also after Pick, while the circuit waits.
	Allow func(Candidate) bool
}

func (r *Request) allows(g *sampled) bool { return r.Allow == nil || r.Allow(g.cur) }
