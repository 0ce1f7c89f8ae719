package control

import (
	"net"
	"testing"
)

// sitting adds a session at a port that nothing serves, if there is room.
func sitting(t *testing.T, s *Server, at string) (one *session, ok bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.roomLocked(at) {
		return nil, false
	}
	a, b := net.Pipe()
	t.Cleanup(func() { b.Close() })
	one = newSession(s, a, Door{at: at})
	t.Cleanup(one.close)
	s.sessions = append(s.sessions, one)
	return one, true
}

// TestStrangersAtAnotherPort: strangers at one port make room for each other, and for who comes at another port, which
// they do not close.
func TestStrangersAtAnotherPort(t *testing.T) {
	s := New(Config{})
	for range maxStrangers {
		sitting(t, s, "tcp")
	}
	good, ok := sitting(t, s, "socket")
	for range maxStrangers {
		sitting(t, s, "tcp")
	}
	if !ok || good.ended() {
		t.Error("strangers at a port close a connection to another one")
	}
	second, ok := sitting(t, s, "socket")
	if !ok || second.ended() || good.ended() {
		t.Error("a second one finds no room")
	}
}

// TestEndedTakeNoPlace: sessions that have ended, and are in the list still, take nobody's place, and the list has a bound.
func TestEndedTakeNoPlace(t *testing.T) {
	s := New(Config{})
	for range maxSessions {
		one, _ := sitting(t, s, "tcp")
		one.known.Store(true)
		one.close()
	}
	for n := range maxSessions {
		one, ok := sitting(t, s, "socket")
		if !ok {
			t.Fatalf("no room after %d sessions", n)
		}
		one.known.Store(true)
	}
	if _, ok := sitting(t, s, "socket"); ok {
		t.Error("the list has no bound")
	}
	s.sessions = s.sessions[1:] // one of the ended leaves
	if _, ok := sitting(t, s, "socket"); ok {
		t.Errorf("more than %d are served", maxSessions)
	}
}
