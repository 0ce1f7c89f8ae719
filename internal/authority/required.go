package authority

import "github.com/chivenet/chive/internal/netdoc"

// obeyLocked ends the authority, as C tor does, if a consensus requires protocols of relays
// that this version lacks: an authority is one of them.
func (a *Authority) obeyLocked(c *netdoc.Consensus) {
	advised, refused := a.speaker.Judge(&c.Preamble)
	if refused != nil {
		select {
		case a.refused <- refused:
		default: // it ends already
		}
	}
	a.advice.Warn(a.log, advised)
}
