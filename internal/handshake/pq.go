package handshake

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// Numbers of the experiment (docs/spec/pq-circuits.md, section 1). Tor assigns
// numbers from the bottom of each space; these are at the top. Package cell has
// those of cells and messages.
const (
	// ProtoName is the subprotocol under which a relay advertises what it speaks,
	// in the proto lists of its descriptor and of the consensus. Its versions 1 to 3
	// are the parameter sets of carriage A, by their numbers.
	ProtoName = "ChivePQ"
	// ProtoRekey is the version for carriage B, with any parameter set.
	ProtoRekey = 8

	// PQHandshakeBase plus a PQSet is the handshake type (HTYPE) of the hybrid.
	PQHandshakeBase cell.HandshakeType = 0xff00
)

// hybrid returns ntor-v3 with ML-KEM. Each parameter set has a PROTOID of its
// own, so that no transcript of one set is one of another.
func hybrid(set PQSet) *v3 {
	return &v3{name: set.String(), proto: pqSets[set].proto, set: set}
}

// pqKind returns a row of the table.
func pqKind(set PQSet) *Kind {
	return hybrid(set).kind(Kind{
		Type: PQHandshakeBase + cell.HandshakeType(set), Form: cell.FormLong, Proto: ProtoName, Version: int(set), Cost: CostMLKEM,
	},
		func(t *linkspec.Target) []byte { return PQVerification(CarriageA, t.Proto.Versions(ProtoName)) },
		func(r *Relay) [][]byte { return r.PQVerifications(CarriageA) })
}

// Kind returns the hybrid handshake with the parameter set; nil of an invalid
// one.
func (s PQSet) Kind() *Kind { return OfType(PQHandshakeBase + cell.HandshakeType(s)) }

// RekeySpoken reports whether a relay with the given subprotocol versions speaks
// carriage B. That needs a hop that ntor-v3 made.
func RekeySpoken(p protover.Set) bool {
	return p.Has(ProtoName, ProtoRekey) && p.Has(NtorV3.Proto, NtorV3.Version)
}

// PQVerification returns the verification string (VER) of a hybrid handshake or
// a rekey: how the messages are carried, and what the relay advertises in its
// ProtoName entry. The client takes the entry from the signed consensus, the
// relay from its own descriptor.
func PQVerification(c Carriage, advertised string) []byte {
	v := append([]byte("chive pq circuit extend "), byte(c), ' ')
	return append(v, advertised...)
}

// PQVerifications returns the strings that a client may have bound: one for each
// thing that the relay has advertised lately.
func (r *Relay) PQVerifications(c Carriage) [][]byte {
	var out [][]byte
	for _, advertised := range r.PQ {
		out = append(out, PQVerification(c, advertised))
	}
	return out
}

// Carriage says how a post-quantum secret reaches a hop.
type Carriage byte

// The carriages.
const (
	CarriageA Carriage = 'A' // in the handshake that makes the hop
	CarriageB Carriage = 'B' // in a rekey of a hop that ntor-v3 made, or carriage H
	CarriageH Carriage = 'H' // after hs-ntor, on the hop between an onion service and its client
)
