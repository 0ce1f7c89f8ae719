package dirserver

import (
	"encoding/hex"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/netdoc"
)

// diffCache keeps the diffs to the current consensuses, made when first asked
// for. There are no more than earlier consensuses.
type diffCache struct {
	mu   sync.Mutex // guards what follows; held while a diff is made
	to   [2][32]byte
	made [2]map[[32]byte]*Doc // by the digest of where it leads from; nil: not worth it
}

// diffTo returns a diff from one of the consensuses that the client has, named
// in hexadecimal, or nil.
func (s *Server) diffTo(c *Consensus, from []string) *Doc {
	for _, w := range from {
		b, err := hex.DecodeString(strings.TrimSpace(w))
		if err != nil || len(b) != 32 || [32]byte(b) == c.SHA3 {
			continue
		}
		old := s.cfg.Docs.Earlier(c.Flavor, [32]byte(b))
		if old == nil {
			continue
		}
		if d := s.diffs.get(s, old, c); d != nil {
			return d
		}
	}
	return nil
}

func (dc *diffCache) get(s *Server, from, to *Consensus) *Doc {
	dc.mu.Lock()
	defer dc.mu.Unlock()
	f := to.Flavor
	if dc.to[f] != to.SHA3 || dc.made[f] == nil {
		dc.to[f], dc.made[f] = to.SHA3, map[[32]byte]*Doc{}
	}
	d, ok := dc.made[f][from.SHA3]
	if ok {
		return d
	}
	text, err := netdoc.MakeDiff(from.Doc.body, to.Doc.body)
	if err != nil {
		s.cfg.Log.Warn("consensus diff", "err", err)
	} else if len(text) < len(to.Doc.body) {
		d = &Doc{body: text, keep: true}
	}
	dc.made[f][from.SHA3] = d
	return d
}
