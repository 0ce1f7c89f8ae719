package authority

import (
	"io"
	"time"
)

// Status is how an authority is, at about one moment.
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

	// The consensus that it serves; without one the times are zero.
	ValidAfter time.Time `json:"consensus_valid_after,omitzero"`
	ValidUntil time.Time `json:"consensus_valid_until,omitzero"`
	Signatures int       `json:"signatures"`

	// The round under way.
	NextVote      time.Time `json:"next_vote,omitzero"`
	NextConsensus time.Time `json:"next_consensus,omitzero"`
	Votes         int       `json:"votes"` // that are here

	CertificateEnds time.Time `json:"certificate_ends"` // of the signing key
}

// Status returns what the authority is doing.
func (a *Authority) Status() Status { return Status(a.inner.Status()) }

// WriteMetrics writes the authority's metrics as Prometheus text.
func (a *Authority) WriteMetrics(w io.Writer) error { return a.metrics.WritePrometheus(w) }

// WriteMetricsJSON writes the authority's metrics as JSON.
func (a *Authority) WriteMetricsJSON(w io.Writer) error { return a.metrics.WriteJSON(w) }
