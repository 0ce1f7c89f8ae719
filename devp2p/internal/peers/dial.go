package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// reserved reports whether a node is static or trusted. mu is held.
func (m *Manager) reserved(id enode.ID) bool {
	if e := m.table[id]; e != nil && e.static {
		return true
	}
	for _, n := range m.cfg.Trusted {
		if n.ID() == id {
			return true
		}
	}
	return false
}

// dialLoop dials nodes until ctx ends.
func (m *Manager) dialLoop(ctx context.Context, srv *p2p.Server) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m.mu.Lock()
		for m.dials < m.cfg.MaxDials {
			e := m.pick(time.Now())
			if e == nil {
				break
			}
			m.dials++
			e.dialing = true
			n := e.node
			m.wg.Go(func() { m.dial(ctx, srv, n) })
		}
		wait := m.idle(time.Now())
		m.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// outbound counts dialled connections, and dials, to nodes that are not static. mu is
// held.
func (m *Manager) outbound() (n int) {
	for id, c := range m.live {
		if e := m.table[id]; !c.inbound && (e == nil || !e.static) {
			n++
		}
	}
	for _, e := range m.table {
		if e.dialing && !e.static {
			n++
		}
	}
	return n
}

// pick returns the node to dial next; nil: none. Static nodes are first. Others are
// chosen by their scores, with luck, so that those with a low one have a chance. mu is
// held.
func (m *Manager) pick(now time.Time) *entry {
	taken := len(m.conns) - m.pending + m.dials // of all places: a dial may become a peer
	room := m.outbound() < m.cfg.MaxOutbound && taken < m.cfg.MaxPeers
	var best *entry
	var bestValue float64
	for id, e := range m.table {
		if e.dialing || m.live[id] != nil || now.Before(e.next) || !e.static && !room || !m.banned.has(id, now).IsZero() {
			continue
		}
		value := e.score.now(now, scoreHalf) + rand.Float64()*scoreMost
		if e.static {
			value += 10 * scoreMost
		}
		if best == nil || value > bestValue {
			best, bestValue = e, value
		}
	}
	return best
}

// idle returns the time until a node that must wait may be dialled. mu is held.
func (m *Manager) idle(now time.Time) time.Duration {
	wait := time.Minute
	for id, e := range m.table {
		if !e.dialing && m.live[id] == nil && e.next.After(now) {
			wait = min(wait, e.next.Sub(now))
		}
	}
	return wait
}

// dial connects to a node, once.
func (m *Manager) dial(ctx context.Context, srv *p2p.Server, n *enode.Node) {
	var c *conn
	raw, route, err := m.cfg.Transport.DialRoute(ctx, n)
	if err == nil {
		m.mu.Lock()
		c = m.newConn(raw, false, "", route)
		m.mu.Unlock()
		if c == nil {
			raw.Close()
			err = context.Cause(ctx)
		} else if err = m.setup(srv, c, flagDialed, n); err != nil {
			err = fmt.Errorf("handshake: %w", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dials--
	defer m.poke()
	e := m.table[n.ID()]
	if e == nil {
		return
	}
	e.dialing, e.route = false, route
	if err == nil && c.state == gone {
		return // left has noted why, and when to dial again
	}
	if err == nil {
		e.lastErr = ""
		// The server's event may not be here yet: until then the node is not dialled again.
		e.next = time.Now().Add(m.cfg.BackoffMin)
		return
	}
	if ctx.Err() != nil {
		return
	}
	e.lastErr = err.Error()
	e.failures++
	m.delay(e, time.Now())
}

// delay has a node wait before it is dialled again. mu is held.
func (m *Manager) delay(e *entry, now time.Time) {
	most := m.cfg.BackoffMax
	if e.static {
		most = min(most, max(staticBackoffMax, m.cfg.BackoffMin))
	}
	e.next = now.Add(backoff(max(e.failures, 1), m.cfg.BackoffMin, most, rand.Float64()))
}
