package daemon

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/chivenet/chive/internal/panics"
	irelay "github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/relay"
)

// HostedRelay is a relay inside a program that has a log, signals and lines of its own: package tord.
type HostedRelay struct {
	n    *relayNode
	last *Settings
	heap heapLimit
	done sync.WaitGroup
	stop context.CancelFunc
}

// HostRelay checks the settings and opens the relay. Its transports keep their keys in transportDir. beside is the most that
// peers may make a client in the same process hold, in bytes.
func (s *Settings) HostRelay(transportDir string, beside uint64, log *slog.Logger) (*HostedRelay, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.role.(*relayRole).over.TransportDir = transportDir
	collectOften(s.role)
	n, err := s.role.open(io.Discard, log)
	if err != nil {
		return nil, s.Explain(err)
	}
	h := &HostedRelay{n: n.(*relayNode), last: s}
	h.heap.keep(s.role.maxMemory() + beside)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.done.Go(panics.Contain(log, nil, func() { h.heap.follow(ctx) }))
	return h, nil
}

// Relay returns the relay.
func (h *HostedRelay) Relay() *relay.Relay { return h.n.Relay }

// Inner returns the relay inside it, for what a controller sees.
func (h *HostedRelay) Inner() *irelay.Relay { return irelay.InnerOf(h.n.Relay) }

// BridgeLines waits until the transports of a bridge run, and returns the lines that its clients need; none for a relay.
func (h *HostedRelay) BridgeLines(ctx context.Context) ([]string, error) {
	if !h.n.cfg.Bridge {
		return nil, nil
	}
	return h.n.BridgeLines(ctx)
}

// Reload takes over the settings that may change meanwhile, if no others differ; otherwise it does nothing and
// returns their names.
func (h *HostedRelay) Reload(next *Settings) (waiting []string, err error) {
	return takeOver(&h.last, next, h.n.reload)
}

// Shutdown takes nothing new, and waits until the open circuits have ended, for as long as the settings say and ctx allows.
// Close follows.
func (h *HostedRelay) Shutdown(ctx context.Context) error { return h.n.shutdown(ctx) }

// Close ends the relay.
func (h *HostedRelay) Close() error {
	h.stop()
	err := h.n.close()
	h.done.Wait()
	return err
}

// Apart keeps the circuits of the client away from relays of its own operator, by their fingerprints: a circuit that goes over
// one of them is shorter than it looks.
func (s *Settings) Apart(relays []string) { s.role.(*proxyRole).apart = relays }
