package hsservice

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// How long circuits to relays may take, and when another one is tried.

const (
	// rendTries and rendTimeout bound one rendezvous. With Config.Limit, rendTimeout bounds when the last try begins, as C tor's
	// MAX_REND_TIMEOUT does, and the consensus says how many there are.
	rendTries   = 2
	rendTimeout = 30 * time.Second
	// rendRetries is the default of the consensus's parameter hs_service_max_rdv_failures.
	rendRetries = 2
	// reachPatience is how long circuits to a directory are tried for an upload, as C tor's SocksTimeout says. Once a circuit is there,
	// nothing is tried again.
	reachPatience = 2 * time.Minute
)

// limit bounds a wait as C tor does, or else by a fixed time. Single onion services have circuits of one hop, and keep
// the fixed one.
func (s *Service) limit(ctx context.Context, w cbt.Wait, fixed time.Duration, cause error) (context.Context, context.CancelFunc) {
	if s.cfg.Limit == nil || s.cfg.Single {
		return context.WithTimeoutCause(ctx, fixed, cause)
	}
	return s.cfg.Limit(ctx, w, fixed, cause)
}

// rendezvous builds a circuit to the rendezvous point and joins the client there.
func (s *Service) rendezvous(ctx context.Context, m *rendRequest) error {
	answered := s.answering(m)
	c, number, err := s.tryRendezvous(ctx, m)
	if err != nil {
		return err
	}
	if err := s.join(c, number, m, <-answered); err != nil {
		closeCircuit(c)
		return err
	}
	return nil
}

// tryRendezvous builds circuits to the rendezvous point until one is there.
func (s *Service) tryRendezvous(ctx context.Context, m *rendRequest) (c *circuit.Circuit, number uint64, err error) {
	tries := rendTries
	if s.cfg.Limit == nil || s.cfg.Single {
		within, cancel := context.WithTimeoutCause(ctx, rendTimeout, errRendTimeout)
		defer cancel()
		ctx = within
	} else {
		tries = 1 + s.rendRetries()
	}
	began := time.Now()
	for range tries {
		if c, number, err = s.reachRendezvous(ctx, m); err == nil || ctx.Err() != nil || time.Since(began) >= rendTimeout {
			break
		}
	}
	return c, number, err
}

// rendRetries is how often a circuit to a rendezvous point is tried again.
func (s *Service) rendRetries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.param == nil {
		return rendRetries
	}
	return int(s.param("hs_service_max_rdv_failures", rendRetries, 1, 10))
}

// reachRendezvous builds a circuit to the rendezvous point. A try takes its part of the time: if a
// relay on the way does not answer, there is some left for another way.
func (s *Service) reachRendezvous(ctx context.Context, m *rendRequest) (*circuit.Circuit, uint64, error) {
	ctx, cancel := s.limit(ctx, cbt.RendezvousReached, rendTimeout/rendTries, errRendTimeout)
	defer cancel()
	return s.cfg.Network.To(ctx, m.target, m.specs)
}

var errRendTimeout = fault.New(fault.Timeout, "the rendezvous took too long")

// reachDirectory builds circuits to a directory for an upload, until one is there.
func (s *Service) reachDirectory(ctx context.Context, dir netdir.Relay) (c *circuit.Circuit, err error) {
	for began := time.Now(); ; {
		c, err = s.tryDirectory(ctx, dir)
		if err == nil || ctx.Err() != nil || fault.Is(err, fault.Refused) || time.Since(began) >= reachPatience {
			return c, err
		}
		select { // not at once: what cannot be built fails at once
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

func (s *Service) tryDirectory(ctx context.Context, dir netdir.Relay) (*circuit.Circuit, error) {
	ctx, cancel := s.cfg.Limit(ctx, cbt.Extended, dirTimeout, errDirTimeout)
	defer cancel()
	c, _, err := s.cfg.Network.ToDirectory(ctx, dir.Target())
	return c, err
}
