package hsservice

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/netdoc"
)

const (
	// kemLife is how long an ML-KEM key is kept after an upload of its descriptor
	// began: a directory gives the descriptor out for one lifetime, a client keeps it
	// for another, and an upload takes some time (docs/spec/pq-onions.md, section 2).
	kemLife = 2*netdoc.HSLifetime + 10*time.Minute
	// maxKEMKeys bounds the keys that are kept.
	maxKEMKeys = 128
)

// kemKeys are the ML-KEM keys of descriptors that clients may have, the one that was
// uploaded last at the end.
type kemKeys struct{ list []kemKept }

type kemKept struct {
	key   *handshake.HSKEMKey
	until time.Time
}

// keep keeps a key for clients that get its descriptor from an upload that begins now.
func (k *kemKeys) keep(key *handshake.HSKEMKey, now time.Time) {
	for i := range k.list {
		if k.list[i].key == key {
			k.list = append(k.list[:i], k.list[i+1:]...)
			break
		}
	}
	k.wipe(maxKEMKeys - 1)
	k.list = append(k.list, kemKept{key, now.Round(0).Add(kemLife)}) // also while the machine sleeps
}

// forget erases the keys that no client can know any more.
func (k *kemKeys) forget(now time.Time) {
	n := len(k.list)
	for n > 0 && !now.Round(0).Before(k.list[len(k.list)-n].until) {
		n--
	}
	k.wipe(n)
}

// wipe erases all but the last n keys.
func (k *kemKeys) wipe(n int) {
	for len(k.list) > n {
		k.list[0].key.Wipe()
		k.list[0].key = nil
		k.list = k.list[1:]
	}
}

// find returns the key with an ID, or nil.
func (k *kemKeys) find(id [cell.OnionKEMIDLen]byte) *handshake.HSKEMKey {
	for _, e := range k.list {
		if e.key.ID() == id {
			return e.key
		}
	}
	return nil
}

// promised reads what an introduction says of an ML-KEM ciphertext.
func (s *Service) promised(exts []cell.Ext) (*circuit.OnionPromise, error) {
	body, ok := cell.FindExt(exts, cell.ExtOnionKEM)
	if !ok {
		if s.cfg.PQ == circuit.PQRequireAll {
			return nil, fault.New(fault.Refused, "the client does not use the service's ML-KEM key")
		}
		return nil, nil
	}
	m, err := cell.ParseOnionKEM(body)
	if err != nil {
		return nil, err
	}
	if m.Set != uint8(handshake.HSKEMSet) {
		return nil, fault.New(fault.Protocol, "the client's ML-KEM has parameter set %d", m.Set)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.kems.find(m.ID)
	if key == nil {
		return nil, fault.New(fault.Refused, "the client has an ML-KEM key that this service does not have, or not any more")
	}
	return &circuit.OnionPromise{Key: key, Hash: m.Hash}, nil
}
