package daemon

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/proxydial"
)

// Hosted is a client with its ports inside a program that has a log, signals and lines of its own: package
// tord.
type Hosted struct {
	n      *proxyNode
	last   *Settings
	closed atomic.Bool // Drain was called
}

// SetNetwork gives the process a network that no file describes.
func (s *Settings) SetNetwork(n *chive.Network) { s.role.common().given = n }

// BeginUnused has the client that Host opens begin dormant, if rest says so, and as one that nobody has used for a while.
func (s *Settings) BeginUnused(rest bool, since time.Duration) {
	s.role.(*proxyRole).over = client.Over{Rest: rest, Unused: since}
}

// Host checks the settings and opens the client and its ports. ready is called with the client before programs that
// connect to the ports are served.
func (s *Settings) Host(log *slog.Logger, ready func(*client.Client)) (*Hosted, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.role.(*proxyRole).ready = func(c Client) { ready(innerOf(c)) }
	n, err := s.role.open(io.Discard, log)
	if err != nil {
		return nil, s.Explain(err)
	}
	return &Hosted{n: n.(*proxyNode), last: s}, nil
}

// Client returns the client.
func (h *Hosted) Client() Client { return h.n.client }

// Inner returns the client inside it, for what a controller sees and does.
func (h *Hosted) Inner() *client.Client { return innerOf(h.n.client) }

func innerOf(c Client) *client.Client { return client.InnerOf(c.(proxydial.Whole).Client) }

// Ports returns a line for each open port, such as "socks 127.0.0.1:9050".
func (h *Hosted) Ports() []string {
	if h.closed.Load() {
		return nil
	}
	return h.n.ports.lines
}

// Drain closes the ports. Connections that are open may finish until ctx ends, and are cut then, which is an error.
func (h *Hosted) Drain(ctx context.Context) error {
	h.closed.Store(true)
	return h.n.ports.shutdown(ctx)
}

// Failed receives the error of a port that has ended by itself.
func (h *Hosted) Failed() <-chan error { return h.n.ports.failed }

// NewIdentity has new streams use new circuits.
func (h *Hosted) NewIdentity() { h.n.newIdentity() }

// ForgetNames forgets which names have virtual addresses.
func (h *Hosted) ForgetNames() { h.n.automap.Forget() }

// Reload takes over the settings that may change meanwhile, if no others differ; otherwise it does nothing and
// returns their names.
func (h *Hosted) Reload(next *Settings) (waiting []string, err error) {
	return takeOver(&h.last, next, h.n.reload)
}

// takeOver is Reload of a role that has the settings at last.
func takeOver(last **Settings, next *Settings, reload func(to role) error) (waiting []string, err error) {
	if err := next.Check(); err != nil {
		return nil, err
	}
	if _, waiting = (*last).Changes(next.Set); len(waiting) > 0 {
		return waiting, nil
	}
	if err := reload(next.role); err != nil {
		return nil, next.Explain(err)
	}
	*last = next
	return nil, nil
}

// Close ends the client and its ports.
func (h *Hosted) Close() error { return h.n.close() }
