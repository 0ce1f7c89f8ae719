package tord

import (
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/ident"
	irelay "github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/relay"
)

// What chive/relay/* tells of a relay. Who its clients are, and where they go, is in none of it: they are counted.

// ofRelay answers a key by the state of the relay.
func ofRelay(line func(*relay.Status, *irelay.Relay) string) func(*query) (control.Answer, error) {
	return func(q *query) (control.Answer, error) {
		if q.hosted == nil {
			return control.Answer{}, noServer(ctlwire.Failed)
		}
		s := q.relayStatus()
		return text(line(&s, q.hosted.Inner()))
	}
}

func relayMemory(s *relay.Status, _ *irelay.Relay) string {
	return fmt.Sprintf("HELD=%d BOUND=%d FULL=%s", s.Memory, s.MemoryBound, yes(s.MemoryFull))
}

func relayCircuits(s *relay.Status, _ *irelay.Relay) string {
	return fmt.Sprintf("OPEN=%d STREAMS=%d ONIONSKINS=%d DROPPED=%d", s.Circuits, s.Streams, s.Onionskins, s.Dropped)
}

func relayLinks(_ *relay.Status, r *irelay.Relay) string {
	var relays, others, queued int
	var in, out uint64
	for _, l := range r.LinkUse() {
		if l.Peer == (ident.RSAID{}) {
			others++
		} else {
			relays++
		}
		in, out, queued = in+l.In, out+l.Out, queued+l.Queued
	}
	return fmt.Sprintf("RELAYS=%d OTHERS=%d IN=%d OUT=%d QUEUED=%d", relays, others, in, out, queued)
}

func relayConsensus(s *relay.Status, _ *irelay.Relay) string {
	l := fmt.Sprintf("LISTED=%s WEIGHT=%d FLAGS=%s ACCEPTED=%d/%d", yes(s.Listed), s.Weight, ctlwire.Quote(s.Flags), s.Accepted, s.Authorities)
	return l + at("PUBLISHED", s.Published) + at("VALID_AFTER", s.ValidAfter)
}

func relayAccounting(s *relay.Status, _ *irelay.Relay) string {
	if s.Hibernation == "" {
		return "STATE=off"
	}
	l := fmt.Sprintf("STATE=%s MAX=%d USED=%d", s.Hibernation, s.AccountingMax, s.AccountingUsed)
	return l + at("START", s.AccountingStart) + at("WAKE", s.AccountingWake) + at("END", s.AccountingEnd)
}

func relayOnions(_ *relay.Status, r *irelay.Relay) string {
	n, bytes := r.OnionDescriptors()
	return fmt.Sprintf("DESCRIPTORS=%d BYTES=%d", n, bytes)
}

// at is a time with its name, or nothing.
func at(name string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " " + name + "=" + ctlwire.Quote(date(t))
}

// relayPhase is how far a relay without a client has come: it is done when it may be in the consensus.
func (q *query) relayPhase() phase {
	s := q.relayStatus()
	switch {
	case s.Reachable:
		return phases[len(phases)-1]
	case !s.ValidAfter.IsZero():
		return phases[len(phases)-2]
	}
	return phases[0]
}
