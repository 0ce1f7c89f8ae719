// Package guard decides which relay a client connects to first (guard-spec).
//
// A client that chose a new first hop for every circuit would sooner or later
// choose a hostile one. So a Manager keeps a small sample of guards across
// restarts. It prefers the guards that it has used, in the order in which they
// were drawn, and goes down this order only when it is sure that the better guards
// are down:
//
//	relays with the Guard flag
//	  └ sampled      drawn by bandwidth, kept for months
//	     ├ confirmed a circuit through it was used
//	     └ filtered  listed now, and allowed by the configuration
//	        └ primary the first few: always tried before any other
//
// There is only one such sample, whatever isolation streams have: all identities
// of a user share their guards. A circuit through a guard that is not primary is
// not used at once, because a better guard may start to work soon. Its Use says
// whether the circuit may be used, must wait, or will not be used.
//
// A Manager is safe for concurrent use. It starts no goroutine and reads no
// clock: callers pass the time, and Tick returns when it must be called next.
package guard

import (
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
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
	Complete bool             // its microdescriptor (for a bridge: descriptor) is present

	// Bridge is set for a bridge. The address comes from the configuration, even
	// if the consensus lists the relay, and the keys come from the bridge's own
	// descriptor.
	Bridge bool
	Ntor   ident.X25519Key // zero until its descriptor is present
	Proto  protover.Set
}

// Directory is the view of one consensus that a Manager needs. It does not
// change.
type Directory interface {
	ValidAfter() time.Time
	ValidUntil() time.Time
	// Param returns a consensus parameter, clamped to [lo, hi], or def if the
	// consensus does not have it.
	Param(name string, def, lo, hi int32) int32
	// Guards yields every relay that is usable as a guard for all circuits
	// and directory requests: flags Running, Valid, Guard, Stable, Fast and
	// V2Dir (guard-spec, section GUARDS).
	Guards() iter.Seq[Candidate]
	// Guard returns the relay with the given identity, if Guards yields it.
	Guard(id ident.RSAID) (Candidate, bool)
}

// Filter is the part of the configuration that forbids guards. Nil functions
// forbid nothing. The Manager calls them while it is locked, so they must not
// call it.
type Filter struct {
	Exclude   func(Candidate) bool      // relays that are never used
	Entry     func(Candidate) bool      // if set, only these relays may be the first hop
	Reachable func(netip.AddrPort) bool // addresses that this client can connect to
}

// Allows reports whether the configuration lets c be a guard.
func (f *Filter) Allows(c Candidate) bool {
	if f.Exclude != nil && f.Exclude(c) || f.Entry != nil && !f.Entry(c) {
		return false
	}
	return f.reaches(c)
}

// reaches reports whether this client can connect to one of the addresses.
func (f *Filter) reaches(c Candidate) bool {
	return f.Reachable == nil || slices.ContainsFunc(c.Addrs, f.Reachable)
}

// Config configures a Manager.
type Config struct {
	Filter Filter
	// Bridges, when not empty, replace the consensus's guards: the sample has
	// exactly these bridges, and is separate from the sample of the consensus's
	// guards.
	Bridges []Candidate
	// UseBridges says that only bridges may be used, even if Bridges is empty. In
	// that case Pick fails.
	UseBridges bool
	// NumTraffic and NumDirectory, when not zero, replace the consensus's numbers
	// of primary guards to choose from, for traffic and for directory requests (C
	// tor's NumEntryGuards and NumDirectoryGuards).
	NumTraffic, NumDirectory int
	// Patience is how long a guard must be silent until it counts as one that cannot be connected to; zero:
	// its first silence is enough.
	Patience time.Duration
	// NextToo has traffic wait for the descriptor of the guard after those that it uses, too, as C tor's clients do.
	NextToo bool
	// Version is saved with every guard that is added to the sample.
	Version string
	// Rand chooses guards and dates; it must be unpredictable, for example
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
	// Allow, when set, is the restriction that the rest of the path puts on the
	// guard, such as "not the exit, nor of its family". The Manager calls it
	// while it is locked, also after Pick, while the circuit waits.
	Allow func(Candidate) bool
	// Outdated, when set, says which guards lack what would be asked of them. They are passed over like unreachable ones, for the
	// next in the list, but only where enough others are left: see enoughUsable.
	Outdated func(Candidate) bool
}

// enoughUsable is how many usable guards a sample must have that outdated ones are passed over, as in C tor: of few, all
// might be.
const enoughUsable = 10

func (r *Request) allows(g *sampled) bool { return r.Allow == nil || r.Allow(g.cur) }
