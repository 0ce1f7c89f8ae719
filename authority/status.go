package authority

import (
	"io"
	"time"
)

// Status is the state of an authority. Its parts are read one after the other.
type Status struct {
	Network     string    `json:"network"` // its name
	Nickname    string    `json:"nickname"`
	V3Ident     string    `json:"v3ident"`
	ORPort      string    `json:"orport"`
	DirPort     string    `json:"dirport"`
	Started     time.Time `json:"started"`
	Authorities int       `json:"authorities"` // of the network, this one among them

	Relays  int `json:"relays"`  // that have sent a descriptor
	Running int `json:"running"` // of these, those that it would vote for now

	Panics uint64 `json:"panics"` // that were contained: each is a mistake in Chive

	// The times of the consensus that it serves; zero without a consensus.
	ValidAfter time.Time `json:"consensus_valid_after,omitzero"`
	ValidUntil time.Time `json:"consensus_valid_until,omitzero"`
	Signatures int       `json:"signatures"`

	// The current round of voting.
	NextVote      time.Time `json:"next_vote,omitzero"`
	NextConsensus time.Time `json:"next_consensus,omitzero"`
	Votes         int       `json:"votes"` // that are here

	CertificateEnds time.Time `json:"certificate_ends"` // of the signing key
}

// Status returns the state of the authority.
func (a *Authority) Status() Status { return Status(a.inner.Status()) }

// WriteMetrics writes the authority's metrics as Prometheus text.
func (a *Authority) WriteMetrics(w io.Writer) error { return a.metrics.WritePrometheus(w) }

// WriteMetricsJSON writes the authority's metrics as JSON.
func (a *Authority) WriteMetricsJSON(w io.Writer) error { return a.metrics.WriteJSON(w) }
