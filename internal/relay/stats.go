package relay

import (
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/exit"
)

// Stats counts what a relay did.
type Stats struct {
	Channel channel.Stats
	Circuit circuit.ServerStats
	Exit    exit.Stats

	ConnsRefused, HandshakesFailed, CircuitsRefused atomic.Uint64
}

// Stats returns the counters, which go on counting.
func (r *Relay) Stats() *Stats { return &r.stats }

// Status is how a relay is, at about one moment.
type Status struct {
	Network     string    `json:"network"` // its name
	Nickname    string    `json:"nickname"`
	Fingerprint string    `json:"fingerprint"`
	Ed25519     string    `json:"ed25519"`
	ORPort      []string  `json:"orport"` // where others reach it
	Started     time.Time `json:"started"`
	Exit        bool      `json:"exit"`
	Bridge      bool      `json:"bridge"`
	Draining    bool      `json:"draining"`  // it ends, and takes nothing new
	Reachable   bool      `json:"reachable"` // tested, or assumed

	// What the newest consensus says, and whether it lists the relay.
	ValidAfter time.Time `json:"consensus_valid_after,omitzero"`
	Listed     bool      `json:"listed"`
	Flags      string    `json:"flags"`
	Weight     uint32    `json:"weight"` // kilobytes a second

	Published   time.Time `json:"published,omitzero"`
	Accepted    int       `json:"accepted"` // authorities that took a descriptor
	Authorities int       `json:"authorities"`

	// MasterKeyHere is whether the Ed25519 master key is in the data directory;
	// SigningKeyEnds is when the key that it signed has to be replaced.
	MasterKeyHere  bool      `json:"master_key_here"`
	SigningKeyEnds time.Time `json:"signing_key_ends"`
	OnionKeySince  time.Time `json:"onion_key_since"`

	Channels    int    `json:"channels"`
	Connections int64  `json:"connections"` // links, and those that shake hands
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
}

// Status returns how the relay is.
func (r *Relay) Status() Status {
	c, o := &r.stats.Channel, &r.stats.Circuit
	cfg := &r.live.Load().cfg
	s := Status{
		Network: cfg.Network.Name, Nickname: cfg.Nickname, Fingerprint: r.keys.ID.RSA.String(), Ed25519: r.keys.ID.Ed.String(), Started: r.started,
		Exit: cfg.Exit != nil, Bridge: cfg.Bridge, Draining: r.draining.Load(), Authorities: len(cfg.Network.Authorities), Rate: cfg.Rate, Burst: cfg.Burst,
		Reachable: r.reachable.Load(), Channels: len(r.channels.Channels()), Connections: r.gate.open.Load(),
		Circuits: o.Circuits.Load(), Streams: r.stats.Exit.Streams.Load(),
		CellsIn: c.CellsIn.Load(), CellsOut: c.CellsOut.Load(), BytesIn: c.BytesIn.Load(), BytesOut: c.BytesOut.Load(),
		Onionskins: o.Onionskins.Load(), Dropped: o.OnionskinsDropped.Load(), Observed: r.bandwidth.Observed(),
	}
	s.MasterKeyHere, s.SigningKeyEnds, s.OnionKeySince = r.keys.ages()
	for _, a := range r.Addrs() {
		s.ORPort = append(s.ORPort, a.String())
	}
	if d := r.desc.Load(); d != nil {
		s.Published = d.Published
	}
	r.publisher.mu.Lock()
	s.Accepted = len(r.publisher.accepted)
	r.publisher.mu.Unlock()
	if d := r.dirs.Directory(); d != nil {
		s.ValidAfter = d.ValidAfter()
		if me, ok := d.Lookup(r.keys.ID.RSA); ok {
			s.Listed, s.Flags, s.Weight = true, me.Flags().String(), me.Bandwidth()
		}
	}
	return s
}
