package chive

import (
	"context"
	"io"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/relay"
)

// RelayStatus is how a relay is, at about one moment.
type RelayStatus = relay.Status

// Relay is a relay inside this program. Its methods may be called from any
// goroutine.
type Relay struct {
	inner   *relay.Relay
	lock    *flock.Flock
	metrics metrics.Registry
}

// NewRelay loads or makes the relay's keys and opens its ORPort; Run serves.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	inner, err := cfg.inner()
	if err != nil {
		return nil, err
	}
	if err := inner.Check(); err != nil {
		return nil, err
	}
	lock, err := lockRelay(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	r := &Relay{lock: lock}
	if r.inner, err = relay.New(inner); err != nil {
		_ = lock.Unlock() // the process ends, or tries again: either frees it
		return nil, err
	}
	r.inner.Register(&r.metrics)
	return r, nil
}

func lockRelay(dir string) (*flock.Flock, error) {
	if err := relay.MakeDir(dir); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fault.New(fault.Local, "lock the data directory: %w", err)
	}
	if !ok {
		return nil, fault.New(fault.Config, "another process uses the data directory %s", dir)
	}
	return lock, nil
}

// BridgeLines waits until a bridge's transports listen, and returns the lines
// that clients need, one for each way in. Run must have been called.
func (r *Relay) BridgeLines(ctx context.Context) ([]string, error) {
	lines, err := r.inner.BridgeLines(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range lines {
		out = append(out, l.String())
	}
	return out, nil
}

// Run serves until ctx is done, drains, and returns. It is called once.
func (r *Relay) Run(ctx context.Context) error {
	err := r.inner.Run(ctx)
	if e := r.lock.Unlock(); err == nil && e != nil {
		err = fault.New(fault.Local, "unlock the data directory: %w", e)
	}
	return err
}

// Reload takes over what may change while the relay runs: Contact, the family,
// the exit policy with its name servers, the limits of bandwidth, MaxAdvertised,
// ShutdownWait and MaxMemory. Keys that were put into DataDir are read too. Other fields of
// cfg must be as they were, or wait for the next start. After an error everything
// is as before.
func (r *Relay) Reload(cfg RelayConfig) error {
	inner, err := cfg.inner()
	if err != nil {
		return err
	}
	return r.inner.Reload(inner)
}

// WriteMetrics writes the relay's metrics as Prometheus text.
func (r *Relay) WriteMetrics(w io.Writer) error { return r.metrics.WritePrometheus(w) }

// Addrs returns the addresses that others reach the ORPort at.
func (r *Relay) Addrs() []netip.AddrPort { return r.inner.Addrs() }

// DirPort returns where the relay serves the directory over plain HTTP; nil:
// nowhere.
func (r *Relay) DirPort() net.Addr { return r.inner.DirPortAddr() }

// Fingerprint returns the relay's RSA identity in hexadecimal and its Ed25519
// identity in base64.
func (r *Relay) Fingerprint() (rsa, ed25519 string) {
	id := r.inner.Target().RelayID
	return id.RSA.String(), id.Ed.String()
}

// Status returns what the relay is doing.
func (r *Relay) Status() RelayStatus { return r.inner.Status() }

// MetricsSnapshot returns the relay's metrics for JSON.
func (r *Relay) MetricsSnapshot() any {
	var s metrics.Snapshot
	r.metrics.Snapshot(&s)
	return s
}
