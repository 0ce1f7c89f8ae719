package authority

import "github.com/chivenet/chive/internal/netdoc"

// obeyLocked ends the authority, as C tor does, if a consensus requires protocols of relays
// that this version lacks: an authority is one of them. It warns once of each set of versions
// that the network recommends.
func (a *Authority) obeyLocked(c *netdoc.Consensus) {
	advised, refused := a.speaker.Judge(&c.Preamble)
	if refused != nil {
		select {
		case a.refused <- refused:
		default: // it ends already
		}
	}
	if advised != "" && advised != a.advised {
		a.log.Warn("the network recommends protocols that this version of chive lacks, and will require them some day: install a newer version in time", "lacks", advised)
	}
	a.advised = advised
}
