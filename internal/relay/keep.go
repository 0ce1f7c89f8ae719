package relay

import (
	"context"
	"math"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/hibernate"
	"github.com/chivenet/chive/internal/netdir"
)

// follow applies the parameters of each new consensus.
func (r *Relay) follow(ctx context.Context) {
	var seen time.Time
	for {
		changed := r.dirs.Changed()
		if d := r.dirs.Directory(); d != nil && !d.ValidAfter().Equal(seen) {
			seen = d.ValidAfter()
			r.useConsensus(d)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (r *Relay) useConsensus(d *netdir.Directory) {
	p := flow.ParamsFrom(d.Param)
	r.flow.Store(&p)
	r.padding.Set(channel.PaddingFrom(d.Param, r.cfg.padMode()))
	r.env.Padding.Set(circuit.PaddingParamsFrom(d.Param))
	in := d.Param("circ_max_cell_queue_size", circuit.DefaultQueue, circuit.MinQueue, math.MaxInt32)
	r.env.Queues.In.Store(in)
	r.env.Queues.Out.Store(d.Param("circ_max_cell_queue_size_out", in, circuit.MinQueue, math.MaxInt32))
	r.ports.Store(networkPorts(r.cfg.Network, d))
	r.exit.SetLookups(d.Param)
	r.exit.SetStreamLimit(r.dos.update(d).streams)
	r.channels.Rank()
	r.renewKeys(time.Now())
	if _, listed := d.Lookup(r.keys.ID.RSA); !listed && !r.resting.Load() && r.desc.Load() != nil && !r.cfg.NoPublish && !r.cfg.Bridge {
		r.log.Info("the consensus does not list this relay", "valid_after", d.ValidAfter())
	}
}

// networkPorts returns the ports of a network's relays and authorities, to which
// exits do not connect; nil if the consensus allows such connections.
func networkPorts(n *netdir.Network, d *netdir.Directory) *map[netip.AddrPort]bool {
	if d.Param("allow-network-reentry", 0, 0, 1) == 1 {
		return nil
	}
	ports := authorityPorts(n)
	for r := range d.All() {
		ports[r.IPv4()] = true
		if six, ok := r.IPv6(); ok {
			ports[six] = true
		}
	}
	return &ports
}

// authorityPorts returns the ports that are known before there is a consensus.
func authorityPorts(n *netdir.Network) map[netip.AddrPort]bool {
	ports := map[netip.AddrPort]bool{}
	for _, a := range n.Authorities {
		for _, p := range a.ORPorts {
			ports[p] = true
		}
		if a.DirPort.IsValid() {
			ports[a.DirPort] = true
		}
	}
	return ports
}

// isNetworkPort reports whether a port belongs to the network itself.
func (r *Relay) isNetworkPort(a netip.AddrPort) bool {
	ports := r.ports.Load()
	return ports != nil && (*ports)[a]
}

// judgeOrigin allows streams only on circuits that come from relays: otherwise
// anybody could use an exit as a proxy of one hop, and it would attract abuse. As
// in C tor, the relay must also be in the consensus, except in testing networks,
// whose relays start faster than consensuses are made.
func (r *Relay) judgeOrigin(l *channel.Link) cell.EndReason {
	if !l.PeerAuthenticated {
		return cell.EndTorProtocol
	}
	d := r.dirs.Directory()
	if d == nil || r.cfg.Network.Testing.AllowPrivateAddresses || d.Param("refuseunknownexits", 1, 0, 1) == 0 {
		return 0
	}
	if _, known := d.Lookup(l.Peer.RSA); !known {
		return cell.EndMisc
	}
	return 0
}

// mayRest reports whether an idle link may rest for long: the consensus lists the relay at
// its other end, and neither memory nor file descriptors are scarce.
func (r *Relay) mayRest(l *channel.Link) bool {
	return r.memory.Used() <= r.memory.Bound()/2 && r.gate.open.Load() <= r.gate.limit/2 && r.dos.listed(l)
}

// Intervals of the periodic tasks.
const (
	keyInterval  = time.Hour
	saveInterval = 10 * time.Minute
)

// housekeep runs the periodic tasks until ctx is done.
func (r *Relay) housekeep(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	keys := time.NewTicker(keyInterval)
	defer keys.Stop()
	save := time.NewTicker(saveInterval)
	defer save.Stop()
	var told refused
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case now := <-second.C:
			c, x := &r.stats.Channel, &r.stats.Exit
			r.bandwidth.sample(now, c.BytesIn.Load()+x.BytesIn.Load(), c.BytesOut.Load()+x.BytesOut.Load())
			r.lookFull()
			d := &r.stats
			r.acct.tick(now.Round(0), c.BytesIn.Load()+x.BytesIn.Load()+d.DirBytesIn.Load(), c.BytesOut.Load()+x.BytesOut.Load()+d.DirBytesOut.Load())
			if n++; n%60 == 0 {
				if state, _ := r.acct.now(); state == hibernate.Dormant {
					r.closeIdleLinks()
				}
				r.channels.Reap()
				r.dos.forget()
				r.warnOfRefused(&told)
			}
		case now := <-keys.C:
			r.renewKeys(now)
		case now := <-save.C:
			if err := r.bandwidth.save(r.cfg.DataDir, now); err != nil {
				r.log.Warn("what the relay has measured of its bandwidth is not on the disk", "err", err)
			}
		}
	}
}

// refused counts the requests that a relay refused in its own defence.
type refused struct{ onionskins, connections, halfOpen, circuits, directory uint64 }

// warnOfRefused logs what was refused since the last call, if anything was.
func (r *Relay) warnOfRefused(last *refused) {
	now := refused{r.stats.Circuit.OnionskinsDropped.Load(), r.stats.ConnsRefused.Load(), r.gate.cutOff.Load(), r.stats.CircuitsRefused.Load(), 0}
	if r.cache != nil {
		served := r.cache.server.Stats()
		now.directory = served.Quick.Load() + served.Again.Load()
	}
	if now != *last {
		r.log.Warn("overload or attack: in the last minute the relay refused", "onionskins", now.onionskins-last.onionskins,
			"connections", now.connections-last.connections, "silent_connections", now.halfOpen-last.halfOpen, "circuits", now.circuits-last.circuits,
			"directory_streams", now.directory-last.directory)
	}
	*last = now
}

// renewKeys replaces the keys that expire.
func (r *Relay) renewKeys(now time.Time) {
	rotation, grace := int32(rotationDays), int32(graceDays)
	if d := r.dirs.Directory(); d != nil {
		rotation = d.Param("onion-key-rotation-days", rotationDays, 1, 90)
		grace = d.Param("onion-key-grace-period-days", graceDays, 1, rotation)
	}
	changed, err := r.keys.Renew(now, time.Duration(rotation)*24*time.Hour, time.Duration(grace)*24*time.Hour)
	if err != nil {
		r.log.Error("keys cannot be renewed", "err", err)
		return
	}
	r.channels.SetLink(r.linkConfig())
	if changed {
		r.publisher.changed()
	}
}

// lookFull warns when the memory for peers has come near its bound: soon the relay closes what
// honest peers need.
func (r *Relay) lookFull() {
	if used, bound := r.memory.Used(), r.memory.Bound(); r.full.Look(used, bound) {
		r.log.Warn("peers make the relay hold nearly as much as it may: raise max-memory if the machine has more, or give the machine more", "used", used, "bound", bound, "max_memory", r.live.Load().cfg.MemoryOption)
	}
}

// evictionLog is the least time between two log lines about evictions.
const evictionLog = 10 * time.Second

// evicted logs that peers held too much.
func (r *Relay) evicted(holders int, bytes int64) {
	r.log.Warn("peers made the relay hold too much memory: those that were idle or held the most were closed", "bound", r.memory.Bound(), "closed", holders, "freed", bytes)
}
