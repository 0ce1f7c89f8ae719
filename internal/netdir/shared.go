package netdir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Shared keeps documents for several directories of one process, so that each is fetched, parsed and kept once. Nothing
// in it is found but by the digest of its text: a microdescriptor's and a descriptor's are in a consensus whose signatures
// the asker has checked itself, and of a consensus it has the text, and checks the signatures too. So who puts a document
// in can make nobody believe another one. What comes out is immutable. The zero value is empty and ready; its methods
// may be called from any goroutine.
type Shared struct {
	mu        sync.Mutex                         // guards what follows; held while a consensus is parsed, so that the others find it
	consensus [sharedConsensuses]sharedConsensus // the newest
	next      int                                // of consensus
	micro     map[[32]byte]sharedMicro           // by SHA-256
	desc      map[[20]byte]*netdoc.RouterDesc    // by SHA-1, as an ns consensus names them
	named     [2]map[[32]byte]bool               // the microdescriptors of the two newest consensuses
	namedDesc [2]map[[20]byte]bool               // likewise descriptors
	newest    [2]time.Time                       // of the consensuses that named them
	turns     chan struct{}
}

// sharedConsensuses is how many consensuses are kept; others may be in use, and are then not shared.
const sharedConsensuses = 2

// sharedTurns is how many directories fetch at a time what none of them has yet.
const sharedTurns = 3

type sharedConsensus struct {
	digest [32]byte // of the whole text
	d      *Directory
	parsed *netdoc.Consensus
}

type sharedMicro struct {
	md   *netdoc.Microdesc
	text []byte
}

// parse is Loader.Consensus, which somebody may have done before for the same text. The directory has no microdescriptors.
func (s *Shared) parse(doc []byte) (*Directory, *netdoc.Consensus, error) {
	digest := sha256.Sum256(doc)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.consensus {
		if c := &s.consensus[i]; c.d != nil && c.digest == digest {
			return c.d, c.parsed, nil
		}
	}
	// Values are shared within this document only: whoever sent it chose what would be kept.
	d, parsed, err := parse(doc, new(netdoc.Interner))
	if err != nil {
		return nil, nil, err
	}
	s.consensus[s.next] = sharedConsensus{digest, d, parsed}
	s.next = (s.next + 1) % sharedConsensuses
	return d, parsed, nil
}

// keepMicrodesc keeps a microdescriptor that a verified consensus names, and returns its text to keep.
func (s *Shared) keepMicrodesc(md *netdoc.Microdesc, text []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.micro[md.Digest]; ok {
		return had.text
	}
	if s.micro == nil {
		s.micro = map[[32]byte]sharedMicro{}
	}
	text = bytes.Clone(text)
	s.micro[md.Digest] = sharedMicro{md, text}
	return text
}

// Descriptor returns a descriptor by its SHA-1 digest, if a directory has it and none of its certificates has expired
// at now; else nil.
func (s *Shared) Descriptor(digest [20]byte, now time.Time) *netdoc.RouterDesc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.desc[digest]; d != nil && now.Before(d.CertExpires) {
		return d
	}
	return nil
}

// KeepDescriptor keeps a descriptor that a verified ns consensus names.
func (s *Shared) KeepDescriptor(d *netdoc.RouterDesc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desc == nil {
		s.desc = map[[20]byte]*netdoc.RouterDesc{}
	}
	s.desc[d.Digest] = d
}

// Verified says that the signatures of a directory's consensus are good. What neither this consensus nor the one before
// names is dropped when the first directory of the process has it.
func (s *Shared) Verified(d *Directory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.ValidAfter().After(s.newest[0]) {
		return
	}
	named := make(map[[32]byte]bool, len(d.relays))
	for i := range d.relays {
		named[d.relays[i].md] = true
	}
	s.newest[0], s.named = d.ValidAfter(), [2]map[[32]byte]bool{named, s.named[0]}
	maps.DeleteFunc(s.micro, func(digest [32]byte, _ sharedMicro) bool { return !s.named[0][digest] && !s.named[1][digest] })
}

// VerifiedDescriptors does the same for an ns consensus and the descriptors that it names.
func (s *Shared) VerifiedDescriptors(validAfter time.Time, named map[[20]byte]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !validAfter.After(s.newest[1]) {
		return
	}
	s.newest[1], s.namedDesc = validAfter, [2]map[[20]byte]bool{named, s.namedDesc[0]}
	maps.DeleteFunc(s.desc, func(digest [20]byte, _ *netdoc.RouterDesc) bool {
		return !s.namedDesc[0][digest] && !s.namedDesc[1][digest]
	})
}

// Turn waits until the caller may fetch what Shared lacks: meanwhile others may have got it. The caller calls done at the
// end.
func (s *Shared) Turn(ctx context.Context) (done func(), err error) {
	s.mu.Lock()
	if s.turns == nil {
		s.turns = make(chan struct{}, sharedTurns)
	}
	turns := s.turns
	s.mu.Unlock()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "waiting for other directories of this process: %w", context.Cause(ctx))
	}
}

// Take adds the missing microdescriptors that other directories have, and returns how many these are; 0 if nothing is shared. keep is as in Parse.
func (a *Adding) Take(keep func([]byte)) int {
	s := a.l.Shared
	if s == nil {
		return 0
	}
	var texts [][]byte
	s.mu.Lock()
	for digest, i := range a.want {
		if m, ok := s.micro[digest]; ok {
			delete(a.want, digest)
			a.mds[i] = m.md
			a.n++
			a.fresh = false
			texts = append(texts, m.text)
		}
	}
	s.mu.Unlock()
	for _, text := range texts {
		if keep != nil {
			keep(text)
		}
	}
	return len(texts)
}
