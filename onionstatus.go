package chive

import "time"

// OnionStatus is the state of an onion service.
type OnionStatus struct {
	Address            string    `json:"address"`
	Name               string    `json:"name,omitempty"`
	Published          bool      `json:"published"`           // a descriptor was taken once, or fetched back with the appearance fast
	IntroductionPoints []string  `json:"introduction_points"` // the relays' fingerprints
	Launching          int       `json:"launching"`           // circuits to more of them that are being built
	Uploaded           time.Time `json:"uploaded,omitzero"`   // when a directory last took a descriptor
	Missing            int       `json:"missing"`             // directories that have not taken the newest
	AuthorizedClients  int       `json:"authorized_clients"`  // zero: everybody may connect
	Circuits           int       `json:"circuits"`            // clients that are connected
	Streams            int       `json:"streams"`             // open connections
	Introductions      uint64    `json:"introductions"`       // clients that asked, since the start
	Rejected           uint64    `json:"rejected"`            // of these: too many at once, unreadable, or repeated
	Failed             uint64    `json:"failed"`              // of the others: the service could not meet them
	StreamsOpened      uint64    `json:"streams_opened"`      // since the start
	StreamsRefused     uint64    `json:"streams_refused"`     // because of MaxStreams
	PoW                *OnionPoW `json:"pow,omitempty"`       // nil: the service asks for no proofs of work
	Problem            string    `json:"problem,omitempty"`   // the last one, unless it is over
}

// OnionPoW is what an onion service does with proofs of work.
type OnionPoW struct {
	SuggestedEffort uint32            `json:"suggested_effort"` // what clients are asked for
	Waiting         int               `json:"waiting"`          // clients that wait for their turn
	Verified        uint64            `json:"verified"`         // proofs, since the start
	Refused         map[string]uint64 `json:"refused"`          // proofs, by the reason
}

// Status returns the state of the service.
func (l *OnionListener) Status() OnionStatus {
	s := l.s.Status()
	out := OnionStatus{
		Address: l.Address(), Name: l.name(), Published: s.Published, IntroductionPoints: []string{}, Launching: s.Launching,
		Uploaded: s.Uploaded, Missing: s.Missing, AuthorizedClients: s.Clients, Circuits: s.Circuits, Streams: s.Streams,
		Introductions: s.Introductions, Rejected: s.Rejected, Failed: s.Failed, StreamsOpened: s.StreamsOpened, StreamsRefused: s.StreamsRefused,
	}
	for _, id := range s.Points {
		out.IntroductionPoints = append(out.IntroductionPoints, id.String())
	}
	if w := s.PoW; w != nil {
		out.PoW = &OnionPoW{SuggestedEffort: w.Suggested, Waiting: w.Waiting, Verified: w.Verified, Refused: w.Refused}
	}
	if s.Problem != nil {
		out.Problem = s.Problem.Error()
	}
	return out
}
