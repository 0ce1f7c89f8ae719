package chive

import (
	"io"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
)

// Status returns a snapshot of the client's state.
func (c *Client) Status() Status {
	s := c.inner.Status()
	out := Status{
		Network:   c.cfg.Network.Name(),
		Started:   s.Started,
		Bootstrap: BootstrapStatus(s.Bootstrap),
		Directory: DirectoryStatus{ValidAfter: s.ValidAfter, FreshUntil: s.FreshUntil, ValidUntil: s.ValidUntil, Relays: s.Relays, Usable: s.Usable},
		Guards:    []GuardStatus{}, Open: []CircuitStatus{}, Carried: make([]StreamStatus, len(s.Carried)),
		Channels: s.Channels, Circuits: s.Circuits, Building: s.Building, Streams: s.Streams,
		Read: s.Read, Written: s.Written, LinkIn: s.BytesIn, LinkOut: s.BytesOut,
	}
	for _, c := range s.Open {
		out.Open = append(out.Open, CircuitStatus{c.ID, fingerprints(c.Path), protection(c.Hops), c.Names, c.Countries})
	}
	for i, s := range s.Carried {
		out.Carried[i] = StreamStatus(s)
	}
	for _, b := range s.Bridges {
		o := BridgeStatus{Transport: b.Transport, Nickname: b.Nickname, Usable: b.Usable, Problem: b.Problem}
		if !b.ID.RSA.IsZero() {
			o.Fingerprint = b.ID.RSA.String()
		}
		out.Bridges = append(out.Bridges, o)
	}
	for i := range s.Guards.Guards {
		out.Guards = append(out.Guards, guardOf(&s.Guards.Guards[i]))
	}
	return out
}

// Lists reports whether the client can put a relay into circuits: its present
// consensus lists the relay, and the relay's microdescriptor has come. fingerprint has
// 40 hexadecimal digits. A client fetches a new consensus by itself, in the public
// network every one to three hours; Status().Directory says which it has.
func (c *Client) Lists(fingerprint string) bool {
	id, err := ident.ParseRSAID(fingerprint)
	return err == nil && c.inner.Lists(id)
}

func fingerprints(path []ident.RSAID) []string {
	out := make([]string, len(path))
	for i, id := range path {
		out[i] = id.String()
	}
	return out
}

func protection(hops []client.HopProtection) []HopProtection {
	out := make([]HopProtection, len(hops))
	for i, h := range hops {
		out[i].Handshake, out[i].Layer = h.Handshake, h.Layer
		if !h.IsZero() {
			out[i].PQ, out[i].Carriage = h.Set.String(), string(rune(h.Carriage))
		}
	}
	return out
}

func guardOf(g *guard.GuardInfo) GuardStatus {
	reach := g.Reachable
	if reach == "maybe" {
		reach = "untried"
	}
	return GuardStatus{
		Fingerprint: g.ID.RSA.String(), Nickname: g.Nickname, Confirmed: g.Confirmed > 0,
		Reachable: reach, Usable: g.Listed && g.Allowed && !g.DisabledByPathBias,
	}
}

// WriteMetricsJSON writes the client's metrics as JSON.
func (c *Client) WriteMetricsJSON(w io.Writer) error { return c.metrics.WriteJSON(w) }

// The public names of the internal states.
var (
	circuitStates = [...]CircuitState{client.Opening: CircuitBuilding, client.Open: CircuitOpen, client.Failed: CircuitFailed, client.Closed: CircuitClosed}
	streamStates  = [...]StreamState{client.Opening: StreamOpening, client.Open: StreamOpen, client.Failed: StreamFailed, client.Closed: StreamClosed}
)

// hooks returns the functions that turn reports of the internal package into
// events.
func (co *core) hooks() client.Hooks {
	return client.Hooks{
		Bootstrap: func(b client.Bootstrap) {
			if co.events.wanted() {
				co.events.publish(&BootstrapEvent{time.Now(), BootstrapStatus(b)})
			}
		},
		Circuit: func(i client.CircuitInfo) {
			if co.events.wanted() {
				co.events.publish(&CircuitEvent{Time: time.Now(), ID: i.ID, State: circuitStates[i.State], Purpose: i.Purpose.String(), Hops: i.Hops, Took: i.Took, Protection: protection(i.Protection), Path: fingerprints(i.Path), Nicknames: i.Names, Err: i.Err})
			}
		},
		Stream: func(i client.StreamInfo) {
			if co.events.wanted() {
				co.events.publish(&StreamEvent{Time: time.Now(), ID: i.ID, Circuit: i.Circuit, State: streamStates[i.State], Read: i.Read, Written: i.Written, Err: i.Err})
			}
		},
	}
}
