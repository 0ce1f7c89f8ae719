package netdir

import (
	"log/slog"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/version"
)

// Speaker is a program in one role, which a network judges by the subprotocol versions that
// it supports (tor-spec, "subprotocol versioning"). The zero Speaker is not judged.
type Speaker struct {
	Relay    bool         // judged by the lists for relays: relays, bridges and authorities; else by those for clients
	Supports protover.Set // in all roles
	// Released is when this version of the program was made. An older consensus says nothing
	// about it: what that one requires may have been dropped since.
	Released time.Time
}

// ThisProgram returns this version of Chive as a relay, a bridge or an authority, or else as a
// client. Its day is the one of its list of the public network, which is never later.
func ThisProgram(relay bool) Speaker {
	all, err := protover.Parse(protover.All)
	if err != nil {
		panic(err) // a constant, which a test parses
	}
	return Speaker{Relay: relay, Supports: all, Released: PublicOrigin().Date}
}

// Judge compares a consensus with the program, as C tor does. advised has the versions that the
// network recommends and the program lacks; empty: none. The error is why the program must not
// take part in this network; it says what the user can do.
func (s Speaker) Judge(p *netdoc.Preamble) (advised string, refused error) {
	if s.Supports.IsZero() || p.ValidAfter.Before(s.Released) {
		return "", nil
	}
	who, required, recommended := "clients", p.RequiredClient, p.RecommendedClient
	if s.Relay {
		who, required, recommended = "relays", p.RequiredRelay, p.RecommendedRelay
	}
	if lacks := s.Supports.Missing(required); lacks != "" {
		return "", fault.New(fault.Refused, "the network no longer works with this version of chive: it requires %q of %s, and chive %s, with addresses of %s, lacks %q: install a newer version (https://%s)",
			required.String(), who, version.String(), s.Released.Format(time.DateOnly), lacks, version.Module)
	}
	return s.Supports.Missing(recommended), nil
}

// Judge compares the consensus of a directory with a program.
func (d *Directory) Judge(s Speaker) (advised string, refused error) { return s.Judge(&d.pre) }

// Advice warns of what Judge says that a network recommends: once, as long as it says the same.
// The zero Advice has not warned yet.
type Advice struct{ last string }

// Warn takes what Judge says of the newest consensus.
func (a *Advice) Warn(log *slog.Logger, advised string) {
	if advised != "" && advised != a.last {
		log.Warn("the network recommends protocols that this version of chive lacks, and will require them some day: install a newer version in time", "lacks", advised)
	}
	a.last = advised
}
