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
	d := Door{at: at, Own: at == "socket"}
	if !s.roomLocked(d) {
		return nil, false
	}
	a, b := net.Pipe()
	t.Cleanup(func() { b.Close() })
	one = newSession(s, a, d)
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

// TestStrangersWhenFull: when all places but one are taken, strangers at a TCP port close no connection to a socket that they cannot
// open, and hold nobody up there.
func TestStrangersWhenFull(t *testing.T) {
	s := New(Config{})
	for range maxSessions - 1 {
		one, _ := sitting(t, s, "socket")
		one.known.Store(true)
	}
	sitting(t, s, "tcp")
	last, ok := sitting(t, s, "socket")
	if !ok {
		t.Fatal("a stranger at the TCP port holds the last place")
	}
	for range maxStrangers {
		if _, ok := sitting(t, s, "tcp"); ok || last.ended() {
			t.Fatal("a stranger at the TCP port takes the last place")
		}
	}
	last.known.Store(true)
	if _, ok := sitting(t, s, "socket"); ok {
		t.Error("there is no bound")
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
