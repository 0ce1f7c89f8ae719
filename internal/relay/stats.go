package relay

import (
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/hibernate"
)

// Stats has the counters of a relay.
type Stats struct {
	Channel channel.Stats
	Circuit circuit.ServerStats
	Exit    exit.Stats

	DirBytesIn, DirBytesOut atomic.Uint64 // of the DirPort

	ConnsRefused, HandshakesFailed, CircuitsRefused atomic.Uint64
}

// Stats returns the counters, which continue to change.
func (r *Relay) Stats() *Stats { return &r.stats }

// Status is the state of a relay. The public package has the same fields and
// describes them.
type Status struct {
	Network     string // its name
	Nickname    string
	Fingerprint string
	Ed25519     string
	ORPort      []string // the addresses at which others reach it
	Started     time.Time
	Exit        bool
	Bridge      bool
	Draining    bool // it is ending, and refuses new circuits
	Reachable   bool // tested, or assumed

	// What the newest consensus says, and whether it lists the relay.
	ValidAfter time.Time
	Listed     bool
	Flags      string
	Weight     uint32 // kilobytes a second

	Published   time.Time
	Accepted    int // authorities that accepted a descriptor
	Authorities int

	// MasterKeyHere is whether the Ed25519 master key is in the data directory;
	// SigningKeyEnds is when the signing key's certificate expires.
	MasterKeyHere  bool
	SigningKeyEnds time.Time
	OnionKeySince  time.Time

	Channels    int
	Connections int64 // links, and link handshakes
	Circuits    int64
	Streams     int64
	CellsIn     uint64
	CellsOut    uint64
	BytesIn     uint64
	BytesOut    uint64
	Onionskins  uint64
	Dropped     uint64
	Observed    uint64 // bytes a second
	Rate        uint64 // the limit; 0: none
	Burst       uint64

	Memory       int64  // bytes that peers make the relay hold
	MemoryBound  int64  // bytes; above it, the relay closes those that hold the most
	MemoryFull   bool   // nearly, or was lately
	MaxMemory    uint64 // the option, of which the bound is seven eighths
	MaxMemoryWhy string // why it is so much

	// The accounting; without a limit, Hibernation is empty.
	Hibernation     string // awake, soft, dormant, or waking
	AccountingMax   uint64
	AccountingUsed  uint64
	AccountingStart time.Time
	AccountingEnd   time.Time
	AccountingWake  time.Time
}

// Status returns the state of the relay.
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
		Memory: r.memory.Used(), MemoryBound: r.memory.Bound(), MemoryFull: r.full.Near(), MaxMemory: cfg.MemoryOption, MaxMemoryWhy: cfg.MemoryWhy,
	}
	if a := r.acct.status(); a.Max > 0 {
		s.Hibernation, s.AccountingMax, s.AccountingUsed = a.State.String(), a.Max, a.Used
		s.AccountingStart, s.AccountingEnd, s.AccountingWake = a.Interval.Start, a.Interval.End, a.Wake
		if a.State == hibernate.Awake && r.resting.Load() {
			s.Hibernation = "waking" // another program has its port
		}
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
