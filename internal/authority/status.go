package authority

import (
	"time"

	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// Status is the state of an authority. The public package has the same fields and
// describes them.
type Status struct {
	Network     string // its name
	Nickname    string
	V3Ident     string
	ORPort      string
	DirPort     string
	Started     time.Time
	Authorities int // of the network, this one among them

	Relays  int // that have sent a descriptor
	Running int // of these, those for which it would vote Running now

	Panics uint64 // that were contained; each is a bug in Chive

	// The times of the consensus that it serves; zero without a consensus.
	ValidAfter time.Time
	ValidUntil time.Time
	Signatures int

	// The current round of voting.
	NextVote      time.Time
	NextConsensus time.Time
	Votes         int // that have come

	CertificateEnds time.Time // of the signing key
}

// Status returns the state of the authority.
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
	s.Relays, s.Running = len(a.relays.byRSA), a.readyLocked()
	if r := a.round; r != nil {
		s.NextVote, s.NextConsensus, s.Votes = r.timing.vote, r.timing.start, len(r.votes)
	}
	return s
}
