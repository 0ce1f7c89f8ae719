package hsservice

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

// hostID names a host of a fleet: random, and new at each start.
type hostID [16]byte

// hostEntry has the introduction points of one host.
type hostEntry struct {
	host   hostID
	at     time.Time // when the host said so, in whole seconds
	effort uint32    // of the proofs of work that the host would ask for
	points []netdoc.HSIntroPoint
}

const (
	maxHosts = netdoc.MaxIntroPoints // each has one point at least
	// fleetItemLen is the length of an item's plaintext: the number of hosts, and for
	// each its name, time, effort, number of points, and their authentication keys.
	fleetItemLen = 1 + maxHosts*(16+8+4+1) + netdoc.MaxIntroPoints*32
)

// fleetSecret derives a secret that all hosts of a service share.
func fleetSecret(k *Key, what string) (out [32]byte) {
	h := sha3.New256()
	h.Write([]byte("chive onion fleet: " + what + "\x00"))
	h.Write(k.Bytes())
	h.Sum(out[:0])
	return out
}

// fleetSeal encrypts items.
type fleetSeal struct{ aead cipher.AEAD }

func newFleetSeal(k *Key) (fleetSeal, error) {
	secret := fleetSecret(k, "item")
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return fleetSeal{}, fault.Wrap(fault.Local, err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return fleetSeal{aead}, fault.Wrap(fault.Local, err)
}

// bound ties an item to its descriptor.
func bound(blinded ident.Ed25519ID, revision uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(blinded[:]), revision)
}

func (f fleetSeal) seal(hosts []hostEntry, blinded ident.Ed25519ID, revision uint64) ([]byte, error) {
	b := []byte{byte(len(hosts))}
	n := 0
	for _, e := range hosts {
		b = append(b, e.host[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(e.at.Unix()))
		b = binary.BigEndian.AppendUint32(b, e.effort)
		b = append(b, byte(len(e.points)))
		n += len(e.points)
		for _, p := range e.points {
			b = append(b, p.Auth[:]...)
		}
	}
	if len(hosts) > maxHosts || n > netdoc.MaxIntroPoints {
		return nil, fault.New(fault.Local, "onion service: %d hosts with %d points are too many", len(hosts), n)
	}
	b = append(b, make([]byte, fleetItemLen-len(b))...)
	return f.aead.Seal(nil, nil, b, bound(blinded, revision)), nil
}

// open reads an item. A point that the descriptor lacks, or that cannot be used, is
// passed over, and so is a host without points.
func (f fleetSeal) open(item []byte, blinded ident.Ed25519ID, revision uint64, points []netdoc.HSIntroPoint) ([]hostEntry, error) {
	b, err := f.aead.Open(nil, nil, item, bound(blinded, revision))
	if err != nil || len(b) != fleetItemLen {
		return nil, fault.New(fault.Directory, "onion service: its hosts' item cannot be read")
	}
	byAuth := map[ident.Ed25519ID]netdoc.HSIntroPoint{}
	for _, p := range points {
		byAuth[p.Auth] = p
	}
	bad := fault.New(fault.Directory, "onion service: its hosts' item is malformed")
	r := bin.NewReader("hosts of an onion service", b)
	n := int(r.U8())
	if n > maxHosts {
		return nil, bad
	}
	var out []hostEntry
	seen := map[hostID]bool{}
	for range n {
		var e hostEntry
		r.Copy(e.host[:])
		at := r.U64()
		e.effort = min(r.U32(), hspow.MaxSuggested)
		count := int(r.U8())
		if seen[e.host] || at > 1<<40 || count > netdoc.MaxIntroPoints {
			return nil, bad
		}
		seen[e.host], e.at = true, time.Unix(int64(at), 0)
		for range count {
			var auth ident.Ed25519ID
			r.Copy(auth[:])
			if p, ok := byAuth[auth]; ok {
				e.points = append(e.points, p)
				delete(byAuth, auth) // a point has one host
			}
		}
		if len(e.points) > 0 {
			out = append(out, e)
		}
	}
	rest := r.Rest()
	if r.Err() != nil || slices.ContainsFunc(rest, func(c byte) bool { return c != 0 }) {
		return nil, bad
	}
	return out, nil
}
