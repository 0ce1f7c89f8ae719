package chive

import "time"

// Status is what a client is doing, at about one moment.
type Status struct {
	Network   string    `json:"network"` // its name
	Started   time.Time `json:"started"`
	Bootstrap Bootstrap `json:"bootstrap"`
	Directory Directory `json:"directory"`
	Guards    []Guard   `json:"guards"`   // in order of preference, those in use first
	Channels  int       `json:"channels"` // open links to relays
	Circuits  int       `json:"circuits"` // open circuits
	Building  int       `json:"building"` // circuits being built
	Streams   int       `json:"streams"`  // open streams
	Read      uint64    `json:"read"`     // bytes that streams have delivered
	Written   uint64    `json:"written"`  // bytes that streams have taken
}

// Bootstrap is how far a client has come on its way to carrying traffic.
type Bootstrap struct {
	Percent int    `json:"percent"` // 0 to 100, never falling
	Stage   string `json:"stage"`   // for people: what it does or waits for
	Ready   bool   `json:"ready"`   // traffic can flow; false again when the directory expires
	// Problem is why it does not come further, empty while it does.
	Problem string `json:"problem,omitempty"`
}

// Directory is how current a client's view of its network is. The zero times
// of a client without a consensus are left out of JSON.
type Directory struct {
	ValidAfter time.Time `json:"valid_after,omitzero"`
	FreshUntil time.Time `json:"fresh_until,omitzero"`
	ValidUntil time.Time `json:"valid_until,omitzero"`
	Relays     int       `json:"relays"` // in the consensus
	Usable     int       `json:"usable"` // of these, with a microdescriptor
}

// Guard is one of a client's guards.
type Guard struct {
	Fingerprint string `json:"fingerprint"` // 40 hexadecimal digits
	Nickname    string `json:"nickname,omitempty"`
	Confirmed   bool   `json:"confirmed"` // a circuit through it has worked
	Reachable   string `json:"reachable"` // "yes", "no" or "untried"
	Usable      bool   `json:"usable"`    // listed in the current consensus, and allowed
}
