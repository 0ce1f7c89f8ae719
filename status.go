package chive

import "time"

// Status is the state of a client. Its parts are read one after the other.
type Status struct {
	Network   string          `json:"network"` // its name
	Started   time.Time       `json:"started"`
	Bootstrap BootstrapStatus `json:"bootstrap"`
	Directory DirectoryStatus `json:"directory"`
	Guards    []GuardStatus   `json:"guards"`            // in order of preference, those in use first
	Bridges   []BridgeStatus  `json:"bridges,omitempty"` // those configured: the guards are among them
	Channels  int             `json:"channels"`          // open links to relays
	Circuits  int             `json:"circuits"`          // open circuits
	Open      []CircuitStatus `json:"open"`              // these, the oldest first
	Building  int             `json:"building"`          // circuits being built
	Streams   int             `json:"streams"`           // open streams
	Carried   []StreamStatus  `json:"carried"`           // these, the oldest first
	Read      uint64          `json:"read"`              // bytes that streams have delivered
	Written   uint64          `json:"written"`           // bytes that streams have taken
	// LinkIn and LinkOut are the bytes of cells on the links to relays: those of streams, of
	// onion services and of the directory, and padding.
	LinkIn  uint64 `json:"link_in"`
	LinkOut uint64 `json:"link_out"`
}

// CircuitStatus is an open circuit.
type CircuitStatus struct {
	ID   uint64          `json:"id"`   // as in CircuitEvent
	Path []string        `json:"path"` // the relays' fingerprints, the guard's first
	Hops []HopProtection `json:"hops"` // what protects each, in the same order
	// Nicknames are the relays' nicknames, in the same order; empty for a relay that
	// the directory does not list.
	Nicknames []string `json:"nicknames,omitempty"`
	// Countries are the relays' countries, in the same order, such as "de", or "??" for
	// one that nobody knows. Nil: no list of relays names a country, so none is known.
	Countries []string `json:"countries,omitempty"`
}

// StreamStatus is an open stream. It does not name the destination.
type StreamStatus struct {
	ID      uint64    `json:"id"`      // as in StreamEvent
	Circuit uint64    `json:"circuit"` // the circuit's ID
	Opened  time.Time `json:"opened"`
	Read    uint64    `json:"read"`    // bytes delivered
	Written uint64    `json:"written"` // bytes accepted
}

// HopProtection is the protection of one hop of a circuit.
type HopProtection struct {
	Handshake string `json:"handshake"` // what made the hop: "ntor", "ntor-v3" or "pq768"
	// PQ is the ML-KEM parameter set, such as "pq768", and Carriage the way in
	// which it was negotiated: "A" in the handshake, "B" in a rekey after it, "H" by
	// the key in an onion service's descriptor.
	// Both are empty when only X25519 protects the hop.
	PQ       string `json:"pq,omitempty"`
	Carriage string `json:"carriage,omitempty"`
	// Layer is the encryption of cells for the hop: "tor1", "cgo" (counter galois onion),
	// or, between an onion service and its client, "tor1-sha3" or "cgo".
	Layer string `json:"layer"`
}

// String names the protection for people, as in "ntor-v3, then pq768".
func (h HopProtection) String() string {
	if h.PQ == "" || h.PQ == h.Handshake {
		return h.Handshake
	}
	return h.Handshake + ", then " + h.PQ
}

// BootstrapStatus is the progress of a client until it can carry traffic.
type BootstrapStatus struct {
	Percent int    `json:"percent"` // 0 to 100, never falling
	Stage   string `json:"stage"`   // for people: what it does or waits for
	Ready   bool   `json:"ready"`   // traffic can flow; false again when the directory expires or no relay answers
	// Problem is why there is no progress; empty while there is.
	Problem string `json:"problem,omitempty"`
}

// DirectoryStatus says how current a client's directory information is. JSON
// omits the zero times of a client without a consensus.
type DirectoryStatus struct {
	ValidAfter time.Time `json:"valid_after,omitzero"`
	FreshUntil time.Time `json:"fresh_until,omitzero"`
	ValidUntil time.Time `json:"valid_until,omitzero"`
	Relays     int       `json:"relays"` // in the consensus
	Usable     int       `json:"usable"` // of these, with a microdescriptor
}

// GuardStatus is one of a client's guards.
type GuardStatus struct {
	Fingerprint string `json:"fingerprint"` // 40 hexadecimal digits
	Nickname    string `json:"nickname,omitempty"`
	Confirmed   bool   `json:"confirmed"` // a circuit through it has worked
	Reachable   string `json:"reachable"` // "yes", "no" or "untried"
	Usable      bool   `json:"usable"`    // listed in the current consensus, and allowed
}

// BridgeStatus is one of the bridges that a client is configured with.
type BridgeStatus struct {
	Transport   string `json:"transport,omitempty"`   // empty: none
	Fingerprint string `json:"fingerprint,omitempty"` // empty while it is unknown
	Nickname    string `json:"nickname,omitempty"`
	Usable      bool   `json:"usable"` // its own descriptor is here
	// Problem is why the client could not fetch a newer descriptor from the
	// bridge.
	Problem string `json:"problem,omitempty"`
}
