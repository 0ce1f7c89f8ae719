package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/internal/role"
)

// Relay is a running relay. Its methods may be called from any goroutine.
type Relay struct {
	inner   *relay.Relay
	life    *role.Life
	metrics metrics.Registry
	found   []netip.AddrPort // where others reach the relay, with port 0 for the ORPort's
	mu      sync.Mutex
	cfg     Config // guarded by mu: the argument of New or the last Reload
}

// New starts a relay. It checks cfg, locks the data directory, loads or makes the
// keys and opens the ports; on the network it waits for nothing but the lookup of a
// name in Address, for 15 seconds at most. Close or Shutdown ends the relay.
func New(cfg Config) (*Relay, error) { return newOver(cfg, relay.Over{}) }

func init() {
	relay.NewOver = func(cfg any, over relay.Over) (any, error) { return newOver(cfg.(Config), over) }
	relay.InnerOf = func(r any) *relay.Relay { return r.(*Relay).inner }
}

// newOver is New with what the argument over has.
func newOver(cfg Config, over relay.Over) (*Relay, error) {
	cfg = role.Copy(cfg)
	in, err := cfg.inner(finding.addresses)
	if err != nil {
		return nil, err
	}
	in.Dial, in.OpenPort, in.NewRSA, in.Documents, in.TransportDir = over.Dial, over.OpenPort, over.NewRSA, over.Documents, over.TransportDir
	if err := in.Check(); err != nil {
		return nil, err
	}
	dir, err := role.OpenDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	keys, err := openKeys(&cfg)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	release := func() error { return errors.Join(keys.Close(), dir.Close()) }
	r := &Relay{cfg: cfg, found: slices.Clone(in.Advertise)}
	if r.inner, err = relay.New(in); err != nil {
		return nil, errors.Join(err, release())
	}
	r.inner.Register(&r.metrics)
	r.life = role.Start(in.Log, r.inner.Run, release)
	return r, nil
}

// openKeys locks the directory of the keys, unless it is in the data directory, whose lock
// holds for both. A nil Dir is none.
func openKeys(cfg *Config) (*role.Dir, error) {
	if cfg.KeyDir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(cfg.KeyDir, 0o700); err != nil {
		return nil, fault.New(fault.Local, "key directory: %w", err)
	}
	data, err := os.Stat(cfg.DataDir)
	if err != nil {
		return nil, fault.New(fault.Local, "data directory: %w", err)
	}
	keys, err := os.Stat(cfg.KeyDir)
	if err != nil {
		return nil, fault.New(fault.Local, "key directory: %w", err)
	}
	if os.SameFile(data, keys) {
		return nil, nil
	}
	return role.OpenKeyDir(cfg.KeyDir)
}

// BridgeLines waits until a bridge's transports listen, and returns the lines
// that clients need: one for each transport, or one for the ORPort if there is
// no transport.
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

// Shutdown refuses new circuits and waits until the open ones have ended, for at
// most Config.ShutdownWait and until ctx ends. Then it does what Close does.
func (r *Relay) Shutdown(ctx context.Context) error {
	r.life.Stop()
	select {
	case <-r.life.Done():
	case <-ctx.Done():
	}
	return r.Close()
}

// Close ends the relay at once and waits until all its goroutines have ended. The
// error says what could not be saved or released. Close may be called again, and
// during Shutdown.
func (r *Relay) Close() error {
	r.inner.Cut()
	return r.life.Close()
}

// Done is closed when the relay has ended: because of Shutdown or Close, or
// because it could not continue; then Err says why.
func (r *Relay) Done() <-chan struct{} { return r.life.Done() }

// Err returns why the relay ended by itself; nil while it runs, and after
// Shutdown or Close.
func (r *Relay) Err() error { return r.life.Err() }

// Reload applies the fields of cfg that may change while the relay runs: those
// that Config marks with reload:"live". If another field differs from the value
// that New received, Reload returns ErrConfig and names it. Reload also reads new
// keys in DataDir. After an error nothing has changed; ErrClosed: the
// relay has ended.
func (r *Relay) Reload(cfg Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := role.CheckReload(&r.cfg, &cfg); err != nil {
		return err
	}
	cfg = role.Copy(cfg)
	in, err := r.again(&cfg)
	if err != nil {
		return err
	}
	if err := r.life.Change(func() error { return r.inner.Reload(in) }); err != nil {
		return err
	}
	r.cfg = cfg
	return nil
}

// again is Config.inner with the addresses that the start found.
func (r *Relay) again(cfg *Config) (relay.Config, error) {
	return cfg.inner(func(*Config, []netip.AddrPort, bool) ([]netip.AddrPort, error) { return r.found, nil })
}

// Config returns the configuration that New or the last successful Reload
// received.
func (r *Relay) Config() Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return role.Copy(r.cfg)
}

// WriteMetrics writes the relay's metrics as Prometheus text.
func (r *Relay) WriteMetrics(w io.Writer) error { return r.metrics.WritePrometheus(w) }

// Addrs returns the addresses at which others reach the ORPort.
func (r *Relay) Addrs() []netip.AddrPort { return r.inner.Addrs() }

// DirPort returns the address at which the relay serves the directory over plain
// HTTP, or nil if it does not.
func (r *Relay) DirPort() net.Addr { return r.inner.DirPortAddr() }

// Fingerprint returns the relay's RSA identity in hexadecimal and its Ed25519
// identity in base64.
func (r *Relay) Fingerprint() (rsa, ed25519 string) {
	id := r.inner.Target().RelayID
	return id.RSA.String(), id.Ed.String()
}

// WriteMetricsJSON writes the relay's metrics as JSON.
func (r *Relay) WriteMetricsJSON(w io.Writer) error { return r.metrics.WriteJSON(w) }
