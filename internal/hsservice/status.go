package hsservice

import (
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// counts is what happened since the start.
type counts struct {
	introductions, rejected, failed atomic.Uint64
	streams, refusedStreams         atomic.Uint64
}

// Status is the state of a service.
type Status struct {
	Published bool
	Points    []ident.RSAID // the relays at which clients ask now
	Launching int           // circuits to others that are being built, also to those of the other descriptor
	Uploaded  time.Time     // when a directory last took a descriptor; zero: none did
	Missing   int           // directories that have not taken the newest descriptors
	Clients   int           // authorized; zero: everybody is
	Circuits  int           // to rendezvous points: clients that are connected
	Streams   int           // that are open
	Problem   error         // the last one; nil: there was none, or it is over

	Introductions  uint64 // that came
	Rejected       uint64 // of these: too many, unreadable, replayed, or not allowed
	Failed         uint64 // rendezvous with clients that did not come about
	StreamsOpened  uint64
	StreamsRefused uint64 // by MaxStreams

	PoW *PoWStatus // nil: the service asks for no proofs of work
}

// PoWStatus is what a service does with proofs of work.
type PoWStatus struct {
	Suggested uint32 // effort
	Waiting   int    // introductions that were opened, and wait for their turn
	Verified  uint64
	Refused   map[string]uint64 // by the reason
}

func (w *work) status() *PoWStatus {
	st := &PoWStatus{Suggested: w.suggested(), Verified: w.verified.Load(), Refused: map[string]uint64{}}
	st.Waiting, _, _ = w.queue.state()
	for why, name := range refusalNames {
		st.Refused[name] = w.refused[why].Load()
	}
	return st
}

// Status returns the state.
func (s *Service) Status() Status {
	c := &s.counts
	st := Status{
		Published: s.isPublished(), Clients: len(s.live.Load().Clients), Streams: int(s.conns.Load()),
		Introductions: c.introductions.Load(), Rejected: c.rejected.Load(), Failed: c.failed.Load(),
		StreamsOpened: c.streams.Load(), StreamsRefused: c.refusedStreams.Load(),
	}
	if s.asksWork() {
		st.PoW = s.work.status()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Circuits, st.Uploaded, st.Problem = len(s.clients), s.uploadedAt, s.problem
	for _, p := range s.points {
		switch {
		case p.circ != nil && !p.replaced && p.of.period.Period == s.present:
			st.Points = append(st.Points, p.target.RSA)
		case p.building:
			st.Launching++
		}
	}
	for _, x := range s.descs {
		st.Missing += len(x.left)
	}
	return st
}
