package hsfleet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha3"
	"encoding/binary"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// The hosts of a fleet tell each other, in the descriptor, which introduction points are
// whose and how fresh this knowledge is. Only who has the service's secret key can read
// or make this item. Its length is always the same, so that clients, who see that there
// is one, do not learn how many hosts there are.

// HostID names a host of a fleet: random, and new at each start.
type HostID [16]byte

// Entry has the introduction points of one host.
type Entry struct {
	Host   HostID
	At     time.Time // when the host said so, in whole seconds
	Effort uint32    // of the proofs of work that the host would ask for
	Points []netdoc.HSIntroPoint
}

const (
	// MaxHosts is how many hosts an item names at most.
	MaxHosts = netdoc.MaxIntroPoints // each has one point at least
	// itemLen is the length of an item's plaintext: the number of hosts, and for
	// each its name, time, effort, number of points, and their authentication keys.
	itemLen = 1 + MaxHosts*(16+8+4+1) + netdoc.MaxIntroPoints*32
)

// Secret derives a secret that all hosts of a service share from its secret key. what says
// what it is for.
func Secret(key []byte, what string) (out [32]byte) {
	h := sha3.New256()
	h.Write([]byte("chive onion fleet: " + what + "\x00"))
	h.Write(key)
	h.Sum(out[:0])
	return out
}

// Sealer encrypts items.
type Sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) (Sealer, error) {
	secret := Secret(key, "item")
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return Sealer{}, fault.Wrap(fault.Local, err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return Sealer{aead}, fault.Wrap(fault.Local, err)
}

// bound ties an item to its descriptor.
func bound(blinded ident.Ed25519ID, revision uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(blinded[:]), revision)
}

// Seal writes the item of the descriptor with a blinded key and a revision.
func (f Sealer) Seal(hosts []Entry, blinded ident.Ed25519ID, revision uint64) ([]byte, error) {
	b := []byte{byte(len(hosts))}
	n := 0
	for _, e := range hosts {
		b = append(b, e.Host[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(e.At.Unix()))
		b = binary.BigEndian.AppendUint32(b, e.Effort)
		b = append(b, byte(len(e.Points)))
		n += len(e.Points)
		for _, p := range e.Points {
			b = append(b, p.Auth[:]...)
		}
	}
	if len(hosts) > MaxHosts || n > netdoc.MaxIntroPoints {
		return nil, fault.New(fault.Local, "onion service: %d hosts with %d points are too many", len(hosts), n)
	}
	b = append(b, make([]byte, itemLen-len(b))...)
	return f.aead.Seal(nil, nil, b, bound(blinded, revision)), nil
}

// Open reads an item. A point that the descriptor lacks, or that cannot be used, is
// passed over, and so is a host without points.
func (f Sealer) Open(item []byte, blinded ident.Ed25519ID, revision uint64, points []netdoc.HSIntroPoint) ([]Entry, error) {
	b, err := f.aead.Open(nil, nil, item, bound(blinded, revision))
	if err != nil || len(b) != itemLen {
		return nil, fault.New(fault.Directory, "onion service: its hosts' item cannot be read")
	}
	byAuth := map[ident.Ed25519ID]netdoc.HSIntroPoint{}
	for _, p := range points {
		byAuth[p.Auth] = p
	}
	bad := fault.New(fault.Directory, "onion service: its hosts' item is malformed")
	r := bin.NewReader("hosts of an onion service", b)
	n := int(r.U8())
	if n > MaxHosts {
		return nil, bad
	}
	var out []Entry
	seen := map[HostID]bool{}
	for range n {
		var e Entry
		r.Copy(e.Host[:])
		at := r.U64()
		e.Effort = min(r.U32(), hspow.MaxSuggested)
		count := int(r.U8())
		if seen[e.Host] || at > 1<<40 || count > netdoc.MaxIntroPoints {
			return nil, bad
		}
		seen[e.Host], e.At = true, time.Unix(int64(at), 0)
		for range count {
			var auth ident.Ed25519ID
			r.Copy(auth[:])
			if p, ok := byAuth[auth]; ok {
				e.Points = append(e.Points, p)
				delete(byAuth, auth) // a point has one host
			}
		}
		if len(e.Points) > 0 {
			out = append(out, e)
		}
	}
	rest := r.Rest()
	if r.Err() != nil || slices.ContainsFunc(rest, func(c byte) bool { return c != 0 }) {
		return nil, bad
	}
	return out, nil
}
