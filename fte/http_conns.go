package fte

import (
	"net"
	"net/http"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// httpConnCost is the memory that net/http keeps for a connection between
// requests, in bytes.
const httpConnCost = 16 << 10

// httpPeer is one connection of the http.Server.
type httpPeer struct {
	c    net.Conn
	from *account.Account // of its address
	mem  *account.Account
	p    *place // in the server's conns
}

// ConnState is the ConnState callback for the http.Server. It bounds the number
// of connections by the number of sessions and pending requests. Above the
// bound, it closes the oldest connection of the address that has the most, so
// that one address's idle connections keep no other client out.
func (s *HTTPServer) ConnState(c net.Conn, state http.ConnState) {
	defer panics.Recover(nil, func(error) { c.Close() })
	s.init()
	switch state {
	case http.StateNew:
		peer := &httpPeer{c: c, from: s.mem.Address(netaddr.Of(c.RemoteAddr()))}
		peer.mem = peer.from.Open(account.Connection, func(error) {
			s.Stats.Evicted.Add(1)
			c.Close()
		})
		peer.mem.Reserve(httpConnCost)
		if old := s.connect(peer); old != nil {
			old.c.Close()
		}
	case http.StateHijacked, http.StateClosed:
		s.disconnect(c)
	}
}

// connect adds a connection, and returns the connection that must be closed to
// make space for it, if any.
func (s *HTTPServer) connect(peer *httpPeer) (old *httpPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns.n >= s.MaxSessions+s.MaxPending {
		old = s.conns.oldest().(*httpPeer)
		s.Stats.Evicted.Add(1)
	}
	peer.p = s.conns.enter(peer.from, peer)
	s.peers[peer.c] = peer
	return old
}

func (s *HTTPServer) disconnect(c net.Conn) {
	if peer := s.takePeer(c); peer != nil {
		peer.mem.Close()
		peer.from.Close()
	}
}

// takePeer is the part of disconnect that runs under the lock.
func (s *HTTPServer) takePeer(c net.Conn) *httpPeer {
	s.mu.Lock()
	defer s.mu.Unlock()
	peer := s.peers[c]
	if peer != nil {
		delete(s.peers, c)
		s.conns.leave(peer.p)
	}
	return peer
}
