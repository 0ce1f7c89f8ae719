package peers

import (
	"math"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
)

// An Event is something that a peer did.
type Event int

// The events.
const (
	Useful       Event = iota // an answer, or an announcement, that was of use
	Useless                   // an answer that has nothing of what was asked for
	SlowAnswer                // no answer in time
	Unasked                   // an answer that nobody asked for
	TooMany                   // more than a limit allows
	BadRecord                 // a node record that is not valid
	Malformed                 // a message that cannot be read, or breaks the protocol
	WrongNetwork              // another chain
	numEvents
)

// rules says what each event counts, and with which reason a peer is sent away if its
// score is too low after it.
var rules = [numEvents]struct {
	name   string
	points float64
	reason p2p.DiscReason
}{
	Useful:       {"useful", 1, p2p.DiscRequested},
	Useless:      {"useless", -2, p2p.DiscUselessPeer},
	SlowAnswer:   {"slow answer", -5, p2p.DiscReadTimeout},
	Unasked:      {"unasked answer", -20, p2p.DiscSubprotocolError},
	TooMany:      {"too many messages", -20, p2p.DiscSubprotocolError},
	BadRecord:    {"bad node record", -20, p2p.DiscSubprotocolError},
	Malformed:    {"malformed message", -100, p2p.DiscProtocolError},
	WrongNetwork: {"another network", -100, p2p.DiscUselessPeer},
}

// String returns the event's name.
func (e Event) String() string { return rules[e].name }

const (
	scoreMost = 100                 // a good past buys no more than this
	scoreBan  = -99                 // at this score a peer is sent away; scores fade, so it is not -100
	scoreHalf = time.Hour           // scores halve in this time
	banTime   = time.Hour           // how long it may not come back
	maxBans   = 4096                // nodes; the first one goes
	scoreOld  = 30 * 24 * time.Hour // a node that was not connected for so long is as one that never was
)

// A node's identity costs nothing, so nodes that break the protocol also count for the
// circuit, or the network of addresses, that they came from. But others may share that, and
// one fault may be a mistake. So the first ones shut nobody else out.
const (
	groupFaults = 2.5              // at this many nodes that were sent away, which fade, a group is shut: at the third within some minutes
	groupHalf   = 10 * time.Minute // they halve in this time
	groupBan    = 10 * time.Minute // how long the group may not connect
	maxGroups   = 4096             // groups that are counted, or shut; of those counted the least goes, of those shut the first
)

// faults counts the nodes of groups that were sent away.
type faults map[string]score

// add counts one more, and reports whether the group has had enough of them.
func (f faults) add(group string, now time.Time) bool {
	if _, ok := f[group]; !ok && len(f) >= maxGroups {
		least, low := "", math.Inf(1)
		for other, s := range f {
			if v := s.now(now, groupHalf); v < low {
				least, low = other, v
			}
		}
		delete(f, least)
	}
	n := f[group].now(now, groupHalf) + 1
	f[group] = score{n, now}
	return n >= groupFaults
}

// score is a sum of points that fades.
type score struct {
	value float64
	at    time.Time
}

// now returns the score at a time. It halves in each half.
func (s score) now(t time.Time, half time.Duration) float64 {
	if s.value == 0 || !t.After(s.at) {
		return s.value
	}
	return s.value * math.Exp2(-float64(t.Sub(s.at))/float64(half))
}

// add counts an event.
func (s *score) add(e Event, t time.Time) float64 {
	s.value = min(s.now(t, scoreHalf)+rules[e].points, scoreMost)
	s.at = t
	return s.value
}

// bans is a bounded set of keys that end by themselves.
type bans[K comparable] struct {
	until map[K]time.Time
	most  int
}

func (b *bans[K]) add(k K, until, now time.Time) {
	if b.until == nil {
		b.until = map[K]time.Time{}
	}
	if _, ok := b.until[k]; !ok && len(b.until) >= b.most {
		var first K
		var at time.Time
		for other, t := range b.until {
			if !t.After(now) {
				delete(b.until, other)
			} else if at.IsZero() || t.Before(at) {
				first, at = other, t
			}
		}
		if len(b.until) >= b.most {
			delete(b.until, first)
		}
	}
	b.until[k] = until
}

// has returns when a ban ends; the zero time: there is none.
func (b *bans[K]) has(k K, now time.Time) time.Time {
	t, ok := b.until[k]
	if ok && !t.After(now) {
		delete(b.until, k)
		return time.Time{}
	}
	return t
}
