package handshake

// Numbers of the experiment (docs/spec/pq-circuits.md, section 1). Tor assigns
// from the bottom of each space; these stand at the top.
const (
	// ProtoName is the subprotocol under which a relay advertises what it
	// speaks, in its descriptor's and the consensus's proto lists.
	ProtoName = "ChivePQ"

	// PQHandshakeBase plus a PQSet is the handshake type (HTYPE) of the hybrid.
	PQHandshakeBase = 0xff00
)

// Relay messages of the experiment. Each body is one fragment (AppendFragments)
// of what the name says.
const (
	RelayLongExtend2   = 0xf0 // the body of an EXTEND2 that does not fit a cell
	RelayLongExtended2 = 0xf1 // the body of an EXTENDED2 that does not fit
	RelayRekeyRequest  = 0xf2 // REQUEST of a rekey
	RelayRekeyReply    = 0xf3 // REPLY of a rekey
	RelayRekeyConfirm  = 0xf4 // CONFIRM of a rekey
)

// Link cells of the experiment: CREATE2 and CREATED2 of variable length, with
// the same bodies.
const (
	CellLongCreate2  = 0xf0
	CellLongCreated2 = 0xf1
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
