package authority

import (
	"time"

	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// Status is how an authority is, at about one moment: the public package has the
// same fields, which it describes.
type Status struct {
	Network     string // its name
	Nickname    string
	V3Ident     string
	ORPort      string
	DirPort     string
	Started     time.Time
	Authorities int // of the network, this one among them

	Relays  int // that have sent a descriptor
	Running int // of these, those that it would vote for now

	Panics uint64 // that were contained: each is a mistake in Chive

	// The consensus that it serves; without one the times are zero.
	ValidAfter time.Time
	ValidUntil time.Time
	Signatures int

	// The round under way.
	NextVote      time.Time
	NextConsensus time.Time
	Votes         int // that are here

	CertificateEnds time.Time // of the signing key
}

// Status returns how the authority is.
func (a *Authority) Status() Status {
	cfg := &a.cfg
	s := Status{
		Network: cfg.Network.Name, Nickname: cfg.Nickname, V3Ident: a.me.String(), ORPort: cfg.ORPort.String(), DirPort: cfg.DirPort.String(),
		Started: a.began, Panics: panics.Total(), Authorities: len(cfg.Network.Authorities), CertificateEnds: cfg.Keys.Cert.Expires,
	}
	if c := a.docs.Consensus(netdoc.FlavorMicrodesc); c != nil {
		s.ValidAfter, s.ValidUntil, s.Signatures = c.ValidAfter, c.ValidUntil, len(c.Signers)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Relays, s.Running = len(a.relays), a.readyLocked()
	if r := a.round; r != nil {
		s.NextVote, s.NextConsensus, s.Votes = r.timing.vote, r.timing.start, len(r.votes)
	}
	return s
}
