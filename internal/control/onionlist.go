package control

import (
	"slices"
	"strings"
	"sync"
)

// onionList has the services of controllers. One that is not detached is its connection's, and ends with it.
type onionList struct {
	mu       sync.Mutex // guards what follows, and the lists of the sessions
	count    int        // of all that run, or begin
	detached []string   // addresses, the oldest first
}

// mayAdd takes a place for one more service.
func (s *Server) mayAdd() bool {
	s.onions.mu.Lock()
	defer s.onions.mu.Unlock()
	if s.onions.count >= maxOnions {
		return false
	}
	s.onions.count++
	return true
}

// release gives a place back.
func (s *Server) release() {
	s.onions.mu.Lock()
	defer s.onions.mu.Unlock()
	s.onions.count--
}

// keepOnion notes whose service one is.
func (one *session) keepOnion(address string, detach bool) {
	l := &one.srv.onions
	l.mu.Lock()
	defer l.mu.Unlock()
	if detach {
		l.detached = append(l.detached, address)
	} else {
		one.onions = append(one.onions, address)
	}
}

// dropOnion takes a service off its list, if it is this session's or nobody's.
func (one *session) dropOnion(address string) bool {
	l := &one.srv.onions
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range []*[]string{&one.onions, &l.detached} {
		if i := slices.Index(*list, address); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			return true
		}
	}
	return false
}

// takeOnions returns the session's services, which are no longer its own.
func (one *session) takeOnions() []string {
	one.srv.onions.mu.Lock()
	defer one.srv.onions.mu.Unlock()
	list := one.onions
	one.onions = nil
	return list
}

// endOnions ends the services of a session that has ended.
func (one *session) endOnions() {
	for _, address := range one.takeOnions() {
		if err := one.srv.cfg.Engine.DelOnion(address); err != nil {
			one.srv.cfg.Log.Warn("the onion service of a controller that is gone has not ended as it should", "err", err)
		}
		one.srv.release()
	}
}

// onionInfo answers the keys of GETINFO that are about the session itself.
func (one *session) onionInfo(key string) (Answer, bool) {
	l := &one.srv.onions
	l.mu.Lock()
	defer l.mu.Unlock()
	switch key {
	case "onions/current":
		return Answer{Text: strings.Join(one.onions, "\n")}, true
	case "onions/detached":
		return Answer{Text: strings.Join(l.detached, "\n")}, true
	}
	return Answer{}, false
}
