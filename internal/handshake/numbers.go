package handshake

// Numbers of the experiment (docs/spec/pq-circuits.md, "Numbers"). Tor assigns
// from the bottom of each space; these stand at the top.
const (
	// ProtoName is the subprotocol under which a relay advertises what it
	// speaks, in its descriptor's and the consensus's proto lists.
	ProtoName = "ChivePQ"

	// PQHandshakeBase plus a PQSet is the handshake type (HTYPE) of the hybrid.
	PQHandshakeBase = 0xff00
)

// Versions of the ProtoName subprotocol. 1 to 3 are the parameter sets of
// carriage A, by their numbers.
const (
	ProtoRekey = 8 // carriage B, with any parameter set
)

// HandshakeType returns the hybrid's HTYPE.
func (s PQSet) HandshakeType() uint16 { return PQHandshakeBase + uint16(s) }

// PQSetOfType returns the parameter set of an HTYPE.
func PQSetOfType(htype uint16) (PQSet, bool) {
	s := PQSet(htype & 0xff)
	return s, htype&0xff00 == PQHandshakeBase && s.Valid()
}
