package relay

import "time"

// Status is the state of a relay. Its parts are read one after the other.
type Status struct {
	Network     string    `json:"network"` // its name
	Nickname    string    `json:"nickname"`
	Fingerprint string    `json:"fingerprint"`
	Ed25519     string    `json:"ed25519"`
	ORPort      []string  `json:"orport"` // the addresses at which others reach it
	Started     time.Time `json:"started"`
	Exit        bool      `json:"exit"`
	Bridge      bool      `json:"bridge"`
	Draining    bool      `json:"draining"`  // it is ending, and refuses new circuits
	Reachable   bool      `json:"reachable"` // tested, or assumed

	// What the newest consensus says, and whether it lists the relay.
	ValidAfter time.Time `json:"consensus_valid_after,omitzero"`
	Listed     bool      `json:"listed"`
	Flags      string    `json:"flags"`
	Weight     uint32    `json:"weight"` // kilobytes a second

	Published   time.Time `json:"published,omitzero"`
	Accepted    int       `json:"accepted"` // authorities that accepted a descriptor
	Authorities int       `json:"authorities"`

	// MasterKeyHere is whether the Ed25519 master key is in the data directory;
	// SigningKeyEnds is when the signing key's certificate expires.
	MasterKeyHere  bool      `json:"master_key_here"`
	SigningKeyEnds time.Time `json:"signing_key_ends"`
	OnionKeySince  time.Time `json:"onion_key_since"`

	Channels    int    `json:"channels"`
	Connections int64  `json:"connections"` // links, and link handshakes
	Circuits    int64  `json:"circuits"`
	Streams     int64  `json:"streams"`
	CellsIn     uint64 `json:"cells_in"`
	CellsOut    uint64 `json:"cells_out"`
	BytesIn     uint64 `json:"bytes_in"`
	BytesOut    uint64 `json:"bytes_out"`
	Onionskins  uint64 `json:"onionskins"`
	Dropped     uint64 `json:"onionskins_dropped"`
	Observed    uint64 `json:"observed_bandwidth"` // bytes a second
	Rate        uint64 `json:"bandwidth_rate"`     // the limit; 0: none
	Burst       uint64 `json:"bandwidth_burst"`

	Memory       int64  `json:"memory"`         // bytes that peers make the relay hold
	MemoryBound  int64  `json:"memory_bound"`   // bytes; above it, the relay closes those that hold the most
	MemoryFull   bool   `json:"memory_full"`    // nearly: from four fifths of the bound, until it is below three fifths
	MaxMemory    uint64 `json:"max_memory"`     // Config's, or the default of this machine: the bound is seven eighths of it
	MaxMemoryWhy string `json:"max_memory_why"` // why it is so much, for people

	// The accounting, if there is a limit. Hibernation is awake, soft (the relay takes nothing
	// new), dormant (its ports and links are closed) or waking (it may serve, but cannot open
	// its ports). AccountingUsed are the bytes that count; the relay serves from
	// AccountingWake on.
	Hibernation     string    `json:"hibernation,omitempty"`
	AccountingMax   uint64    `json:"accounting_max,omitempty"`
	AccountingUsed  uint64    `json:"accounting_used,omitempty"`
	AccountingStart time.Time `json:"accounting_start,omitzero"`
	AccountingEnd   time.Time `json:"accounting_end,omitzero"`
	AccountingWake  time.Time `json:"accounting_wake,omitzero"`
}

// Status returns the state of the relay.
func (r *Relay) Status() Status { return Status(r.inner.Status()) }
