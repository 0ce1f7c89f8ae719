package path

import (
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/protover"
)

// proto is the capability to use a version of a subprotocol.
func proto(name, sub string, version int) Capability {
	return Capability{name, func(r netdir.Relay) bool { return r.Protocols().Has(sub, version) }}
}

// PostQuantum is the capability to protect a hop with ML-KEM of a parameter
// set, with either kind of cells (docs/spec/pq-circuits.md).
func PostQuantum(set handshake.PQSet) Capability {
	return Capability{"post-quantum " + set.String(), func(r netdir.Relay) bool {
		p := r.Protocols()
		return p.Has(handshake.ProtoName, int(set)) || handshake.RekeySpoken(p)
	}}
}

// Capabilities by subprotocol version.
var (
	CongestionControl = proto("congestion control", protover.FlowCtrl, protover.FlowCtrlCC)
	CGO               = proto("CGO", protover.Relay, protover.RelayCGO)
	Conflux           = proto("conflux", protover.Conflux, protover.ConfluxV1)
	Introduction      = proto("introductions to onion services", protover.HSIntro, protover.HSIntroV3)
	Rendezvous        = proto("rendezvous of onion services", protover.HSRend, protover.HSRendV3)
)
