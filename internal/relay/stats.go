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

	ConnsRefused, HandshakesFailed, CircuitsRefused, CircuitsKilled atomic.Uint64
}

// Stats returns the counters, which go on counting.
func (r *Relay) Stats() *Stats { return &r.stats }

// Status is how a relay is, at about one moment.
type Status struct {
	Nickname    string    `json:"nickname"`
	Fingerprint string    `json:"fingerprint"`
	Started     time.Time `json:"started"`
	Exit        bool      `json:"exit"`
	Reachable   bool      `json:"reachable"` // tested, or assumed
	Listed      bool      `json:"listed"`    // in the newest consensus
	Flags       string    `json:"flags"`     // there
	Published   time.Time `json:"published,omitzero"`
	Accepted    int       `json:"accepted"` // authorities that took a descriptor
	Channels    int       `json:"channels"`
	Circuits    int64     `json:"circuits"`
	Streams     int64     `json:"streams"`
	CellsIn     uint64    `json:"cells_in"`
	CellsOut    uint64    `json:"cells_out"`
	BytesIn     uint64    `json:"bytes_in"`
	BytesOut    uint64    `json:"bytes_out"`
	Onionskins  uint64    `json:"onionskins"`
	Dropped     uint64    `json:"onionskins_dropped"`
	Observed    uint64    `json:"observed_bandwidth"` // bytes a second
}

// Status returns how the relay is.
func (r *Relay) Status() Status {
	c, o := &r.stats.Channel, &r.stats.Circuit
	s := Status{
		Nickname: r.cfg.Nickname, Fingerprint: r.keys.ID.RSA.String(), Started: r.started, Exit: r.cfg.Exit != nil,
		Reachable: r.reachable.Load(), Channels: len(r.channels.Channels()),
		Circuits: o.Circuits.Load(), Streams: r.stats.Exit.Streams.Load(),
		CellsIn: c.CellsIn.Load(), CellsOut: c.CellsOut.Load(), BytesIn: c.BytesIn.Load(), BytesOut: c.BytesOut.Load(),
		Onionskins: o.Onionskins.Load(), Dropped: o.OnionskinsDropped.Load(), Observed: r.bandwidth.Observed(),
	}
	if d := r.desc.Load(); d != nil {
		s.Published = d.Published
	}
	r.publisher.mu.Lock()
	s.Accepted = len(r.publisher.accepted)
	r.publisher.mu.Unlock()
	if d := r.dirs.Directory(); d != nil {
		if me, ok := d.Lookup(r.keys.ID.RSA); ok {
			s.Listed, s.Flags = true, me.Flags().String()
		}
	}
	return s
}
