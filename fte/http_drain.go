package fte

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Close ends Accept, and lets no session begin: the decoy answers requests that would
// begin one. It closes the sessions that Accept has not returned. The others go on as
// long as the http.Server does.
func (s *HTTPServer) Close() error {
	s.init()
	s.close.Do(func() { close(s.done) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	return nil
}

// settleLocked ends what a closed server needs only for sessions.
func (s *HTTPServer) settleLocked() {
	select {
	case <-s.done:
		if len(s.sessions) == 0 {
			s.stop()
		}
	default:
	}
}

// Shutdown closes the server, waits until every session has ended and its client has
// fetched what was written to it, and then forgets all sessions. When ctx ends, it closes
// the sessions that are left, and returns an error of kind fault.Timeout. Call it after the
// Drain of the Proxy that has the sessions, and close the http.Server after it, because
// clients may need new connections to fetch their bytes.
func (s *HTTPServer) Shutdown(ctx context.Context) error {
	s.Close()
	var err error
	poll := time.NewTicker(httpHold)
	defer poll.Stop()
	for err == nil {
		n := s.unfinished()
		if n == 0 {
			break
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			err = fault.New(fault.Timeout, "%d sessions were closed unfinished: %w", n, context.Cause(ctx))
		}
	}
	for _, x := range s.forgetAll() {
		x.inner.Close()
	}
	return err
}

// unfinished returns the number of sessions that are open, or have bytes that did not
// reach their clients yet.
func (s *HTTPServer) unfinished() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		// In this order: a request takes bytes only while it is answering.
		if x.ended == nil || !x.out.empty() || x.answering.Load() {
			n++
		}
	}
	return n
}

func (s *HTTPServer) forgetAll() (all []*httpSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		all = append(all, x)
		s.forgetLocked(x)
	}
	return all
}
