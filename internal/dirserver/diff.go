package dirserver

import (
	"encoding/hex"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/netdoc"
)

// diffRoom bounds the bytes of all diffs to a consensus. Those from all of 72 hours have 3.65 times the bytes of the consensus
// of a network of 20,000 relays (6.76 MB) that chivelab made, in which a twentieth of the relays differ at most.
func diffRoom(consensus int) int { return max(16<<20, 4*consensus) }

// diffCache keeps the diffs to the current consensuses, made when first asked
// for. There are no more than earlier consensuses.
type diffCache struct {
	mu sync.Mutex // guards what follows; not held while a diff is made
	of [2]diffs   // by flavor
}

// diffs are the diffs that lead to one consensus.
type diffs struct {
	to   *Consensus
	made map[[32]byte]*diff // by the digest of where it leads from
	size int                // bytes of those made
}

// diff is made by who asks first; who asks meanwhile waits.
type diff struct {
	once sync.Once
	doc  *Doc // nil: not worth it, or no room for it
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

func (dc *diffCache) get(s *Server, from *Earlier, to *Consensus) *Doc {
	d := dc.find(from, to)
	if d == nil {
		return nil
	}
	d.once.Do(func() { d.doc = dc.make(s, from, to) })
	return d.doc
}

// find returns the place of a diff. One that is asked for by who still holds
// the consensus before has none.
func (dc *diffCache) find(from *Earlier, to *Consensus) *diff {
	dc.mu.Lock()
	defer dc.mu.Unlock()
	of := &dc.of[to.Flavor]
	if of.to == nil || of.to.SHA3 != to.SHA3 {
		if of.to != nil && to.ValidAfter.Before(of.to.ValidAfter) {
			return nil
		}
		*of = diffs{to: to, made: map[[32]byte]*diff{}}
	}
	d := of.made[from.SHA3]
	if d == nil {
		d = new(diff)
		of.made[from.SHA3] = d
	}
	return d
}

func (dc *diffCache) make(s *Server, from *Earlier, to *Consensus) *Doc {
	making <- struct{}{}
	defer func() { <-making }()
	old, err := from.Text()
	if err != nil {
		s.cfg.Log.Debug("earlier consensus", "err", err)
		return nil
	}
	s.stats.DiffsMade.Add(1)
	text, err := netdoc.MakeDiff(old, to.Doc.body)
	if err != nil {
		s.cfg.Log.Warn("consensus diff", "err", err)
		return nil
	}
	if len(text) >= len(to.Doc.body) {
		return nil
	}
	dc.mu.Lock()
	defer dc.mu.Unlock()
	of := &dc.of[to.Flavor]
	if of.to.SHA3 != to.SHA3 || of.size+len(text) > diffRoom(len(to.Doc.body)) {
		return nil
	}
	of.size += len(text)
	return keptDoc(text)
}
