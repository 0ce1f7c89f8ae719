package hsservice

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// Live is the part of a Config that may change while the service runs: the one list of it. Fields
// that are as the user gave them have the names of package chive's OnionConfig (see role.Take).
type Live struct {
	Clients []ident.X25519Key // the clients that may read the descriptor; none: all
	// Ports are the virtual ports whose streams Accept returns; nil: all. Targets are
	// where the streams to other ports go: each to one of the port's, at random.
	Ports   map[uint16]bool
	Targets map[uint16][]Target
	// IntroductionPoints is how many are wanted; zero: DefaultPoints.
	IntroductionPoints int
	// MaxStreams bounds the open streams of one circuit; zero: no bound but the memory's.
	// A stream over the bound is refused, or, with CloseCircuit, ends its circuit.
	MaxStreams   int
	CloseCircuit bool
	// AllowUnknownPorts keeps the circuit of a client that asks for a port at which there is
	// nothing. Else the circuit closes with the stream.
	AllowUnknownPorts bool
	// DeferConnected leaves it to who accepts a stream to tell its client that it is open: see
	// Conn.Confirm.
	DeferConnected bool
	// ExportCircuit sends a line of HAProxy's protocol to a target before the client's
	// bytes, with an address that stands for the client's circuit (CircuitAddr).
	ExportCircuit bool
	// IntroLimit is what relays are asked to let through of introductions, as far as they
	// can limit them (HSIntro=5); nil: the consensus decides.
	IntroLimit *cell.IntroDoS
	// PoW says that the service asks for proofs of work; nil: it does not.
	PoW *PoW
}

// check fills in defaults, and refuses what cannot be done.
func (l *Live) check() error {
	if l.IntroductionPoints == 0 {
		l.IntroductionPoints = DefaultPoints
	}
	switch {
	case l.IntroductionPoints < 1 || l.IntroductionPoints > MaxPoints:
		return fault.New(fault.Config, "onion service: %d introduction points: from 1 to %d", l.IntroductionPoints, MaxPoints)
	case l.MaxStreams < 0:
		return fault.New(fault.Config, "onion service: %d streams on a circuit", l.MaxStreams)
	}
	if d := l.IntroLimit; d != nil && (d.RatePerSec < 0 || d.BurstPerSec < d.RatePerSec || d.BurstPerSec > 1<<31-1) {
		return fault.New(fault.Config, "onion service: introductions limited to %d a second, bursts of %d: the burst must not be less than the rate, and the rate not less than 0", d.RatePerSec, d.BurstPerSec)
	}
	if err := errors.Join(l.PoW.check(), checkClients(l.Clients)); err != nil {
		return err
	}
	return CheckLength(l.IntroductionPoints, len(l.Clients))
}

// Reload takes over new settings. Open streams go on, unless a client was removed. The
// descriptors are made again if they change. If a client was removed, or introductions are
// limited otherwise, all introduction points are replaced: a client that was removed knows
// the old ones, so they end as soon as the new descriptors are out, and with them all
// circuits that clients made through them (revoke.go). A frontend knows no
// other points than its backends', and a backend does not know the frontend's clients, so
// each reload of a backend replaces its points.
func (s *Service) Reload(next Live) error {
	if err := next.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	old := s.live.Swap(&next)
	s.work.set(next.PoW)
	s.opening.SetLimit(mayOpen(next.PoW != nil))
	for _, x := range s.descs {
		x.keys.Clients = s.fleet.clients(next.Clients)
		x.less = 0 // fewer clients leave room for more points
	}
	revoked := removed(old.Clients, next.Clients)
	if revoked && s.frontend != nil {
		s.log.Warn("a client was removed, but knows the introduction points of the backends: replace these by SIGHUP to Chive's backends, and by a restart of others")
	}
	if len(s.cfg.Masters) > 0 {
		s.renewLocked(false) // the frontend's descriptor names the old ones for some time
	}
	if revoked || !sameLimit(old.IntroLimit, next.IntroLimit) {
		s.renewLocked(revoked)
	}
	if revoked {
		s.epoch++
	}
	s.kick()
	return nil
}

// CheckReload returns the error that Reload would return.
func (s *Service) CheckReload(next Live) error {
	if err := next.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// Clients returns the clients that may read the descriptor; none: everybody may.
func (s *Service) Clients() []ident.X25519Key { return slices.Clone(s.live.Load().Clients) }

// removed reports whether somebody could read the descriptors before, and cannot now.
func removed(old, next []ident.X25519Key) bool {
	if len(old) == 0 {
		return len(next) > 0
	}
	return len(next) > 0 && slices.ContainsFunc(old, func(k ident.X25519Key) bool { return !slices.Contains(next, k) })
}

func sameLimit(a, b *cell.IntroDoS) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// renewLocked has all introduction points replaced.
func (s *Service) renewLocked(revoked bool) {
	for _, p := range s.points {
		p.renew = true
		if revoked && p.revoked.IsZero() {
			p.revoked = time.Now()
		}
	}
}

// introExts returns what ESTABLISH_INTRO asks of a relay (rend-spec-v3,
// EST_INTRO_DOS_EXT). Relays that do not know the extension refuse it.
func (s *Service) introExts(t *linkspec.Target) []cell.Ext {
	limit := s.live.Load().IntroLimit
	if limit == nil {
		return nil
	}
	d, _ := s.cfg.Network.Directory()
	if d == nil {
		return nil
	}
	if r, ok := d.Lookup(t.RSA); !ok || !r.Protocols().Has(protover.HSIntro, protover.HSIntroDoS) {
		return nil
	}
	return []cell.Ext{limit.Ext()}
}

// lastTarget returns the relay at the end of a circuit.
func lastTarget(c *circuit.Circuit) *linkspec.Target { return c.Last().Info().Target }

// sortedClients returns the keys in an order that does not depend on the files' names.
func sortedClients(keys []ident.X25519Key) []ident.X25519Key {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b ident.X25519Key) int { return bytes.Compare(a[:], b[:]) })
	return keys
}
