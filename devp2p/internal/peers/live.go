package peers

import (
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// watch follows the server's events: a peer is connected, or is gone.
func (m *Manager) watch(events <-chan *p2p.PeerEvent, end <-chan error) {
	for {
		select {
		case <-end:
			return
		case e := <-events:
			switch e.Type {
			case p2p.PeerEventTypeAdd:
				m.joined(e.Peer, e.RemoteAddress)
			case p2p.PeerEventTypeDrop:
				m.left(e.Peer, e.RemoteAddress, e.Error)
			}
		}
	}
}

// joined notes a peer whose handshake is done, and makes room for it.
func (m *Manager) joined(id enode.ID, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conns[addr]
	if c == nil {
		return
	}
	now := time.Now()
	m.settle(c)
	if old := m.live[id]; old != nil {
		m.drop(old) // the server has yet to tell that it is gone
	}
	c.state, c.id, c.since = connected, id, now
	m.live[id] = c
	if e := m.table[id]; e != nil {
		e.connected = now
		m.dirty = true
	}
	switch {
	case !m.banned.has(id, now).IsZero():
		m.disconnect(id, p2p.DiscUselessPeer)
	case m.staying() > m.cfg.MaxPeers && c.inbound:
		if victim := m.evict(c); victim != nil {
			m.disconnect(victim.id, p2p.DiscTooManyPeers)
		} else if !m.reserved(id) {
			m.disconnect(id, p2p.DiscTooManyPeers)
		}
	}
}

// staying counts the peers that were not told to go. mu is held.
func (m *Manager) staying() (n int) {
	for _, c := range m.live {
		if !c.leaving {
			n++
		}
	}
	return n
}

// quick is how long a connection must last so that the next dial need not wait.
const quick = time.Minute

// left notes that a peer is gone.
func (m *Manager) left(id enode.ID, addr, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.live[id]
	if c == nil || c.addr.String() != addr {
		return
	}
	delete(m.live, id)
	m.drop(c)
	if e := m.table[id]; e != nil {
		now := time.Now()
		e.connected, e.lastErr = now, why
		if now.Sub(c.since) < quick {
			e.failures++
		} else {
			e.failures = 0
		}
		m.delay(e, now)
		m.dirty = true
	}
	m.poke()
}

// disconnect sends a peer away, with a reason. It does not wait. mu is held.
func (m *Manager) disconnect(id enode.ID, reason p2p.DiscReason) {
	if c := m.live[id]; c != nil {
		c.leaving = true
	}
	if m.ended {
		return
	}
	srv := m.srv
	m.wg.Go(func() {
		for _, p := range srv.Peers() {
			if p.ID() == id {
				p.Disconnect(reason)
			}
		}
	})
}

// Score counts something that a peer did. A peer with too low a score is sent away, and
// may not come back for an hour. If several of its circuit, or of its network of addresses,
// are sent away within some minutes, nobody of these may connect for ten minutes.
func (m *Manager) Score(id enode.ID, e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var value float64
	c := m.live[id]
	if c != nil {
		value = c.score.add(e, now)
	}
	if entry := m.table[id]; entry != nil {
		value = entry.score.add(e, now)
		m.dirty = true
	}
	if value > scoreBan {
		return
	}
	again := !m.banned.has(id, now).IsZero()
	m.banned.add(id, now.Add(banTime), now)
	if c == nil || again { // again: it is being sent away, and its group has been told
		return
	}
	m.log.Info("a peer is sent away", "after", e.String(), "onion", c.route.Onion, "inbound", c.inbound)
	if c.group != "" && m.faults.add(c.group, now) {
		m.shut.add(c.group, now.Add(groupBan), now)
	}
	m.disconnect(id, rules[e].reason)
}
