package authority

import (
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Authority is a running directory authority. Its methods may be called from any
// goroutine.
type Authority struct {
	inner   *authority.Authority
	life    *role.Life
	dir     *role.Dir
	ports   []net.Listener
	metrics metrics.Registry
	mu      sync.Mutex
	cfg     Config // guarded by mu: the argument of New or the last Reload
}

// New starts an authority. It checks cfg, locks the data directory, loads the
// keys and the state and opens the ports; it waits for nothing on the network.
// Close ends the authority.
func New(cfg Config) (*Authority, error) {
	cfg = role.Copy(cfg)
	in, err := cfg.inner()
	if err != nil {
		return nil, err
	}
	dir, err := role.OpenDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	a := &Authority{cfg: cfg, dir: dir}
	if err := a.open(in); err != nil {
		return nil, errors.Join(err, a.release())
	}
	a.inner.Register(&a.metrics)
	a.life = role.Start(cfg.Logger, a.inner.Run, a.release)
	return a, nil
}

// open loads the keys and opens the ports.
func (a *Authority) open(in authority.Config) (err error) {
	keys := filepath.Join(a.cfg.DataDir, "keys")
	if in.Keys, err = authority.LoadKeys(keys, rand.Reader, time.Now()); err != nil {
		return err
	}
	if open := authority.ExposedKeys(keys); open != nil && in.Log != nil {
		in.Log.Warn("others on this machine can get at the authority's keys: they are for its user alone (chmod go-rwx)", "paths", open)
	}
	for _, p := range []struct {
		field string
		at    *netip.AddrPort
		l     *net.Listener
	}{{"ORPort", &in.ORPort, &in.ORListener}, {"DirPort", &in.DirPort, &in.DirListener}} {
		l, err := inherit.Listen(new(net.ListenConfig), "tcp", p.at.String())
		if err != nil {
			return options.In(p.field, listen.Failed(p.at.String(), err))
		}
		a.ports = append(a.ports, l)
		*p.at, *p.l = l.Addr().(*net.TCPAddr).AddrPort(), l
	}
	a.inner, err = authority.New(in)
	return err
}

func readRelayList(path string) (*authority.RelayList, error) {
	text, err := atomicfile.ReadRegular(path, tomlfile.MaxSize) // again and again
	if err != nil {
		return nil, options.Wrong("RelayList", "%w", err)
	}
	l, err := authority.ParseRelayList(text)
	if err != nil {
		return nil, options.Wrong("RelayList", "%w", err)
	}
	return l, nil
}

// Reload reads the file RelayList again, which then applies to new descriptors
// and to the next vote, and applies the fields of cfg that Config marks with
// reload:"live". If another field differs from the value that New received,
// Reload returns ErrConfig and names it. After an error nothing has changed; ErrClosed:
// the authority has ended.
func (a *Authority) Reload(cfg Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := role.CheckReload(&a.cfg, &cfg); err != nil {
		return err
	}
	cfg = role.Copy(cfg)
	if err := options.Authority.Check(&cfg); err != nil {
		return err
	}
	return a.life.Change(func() error {
		if cfg.RelayList != "" {
			l, err := readRelayList(cfg.RelayList)
			if err != nil {
				return err
			}
			a.inner.SetRelayList(l)
		}
		a.inner.SetMaxMemory(account.BoundOf(cfg.MaxMemory))
		a.cfg = cfg
		return nil
	})
}

// Config returns the configuration that New or the last successful Reload
// received.
func (a *Authority) Config() Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return role.Copy(a.cfg)
}

// Close ends the authority at once and waits until all its goroutines have ended.
// The error says what could not be saved or released. Close may be called again.
func (a *Authority) Close() error { return a.life.Close() }

// Done is closed when the authority has ended: because of Close, or because it
// could not continue; then Err says why.
func (a *Authority) Done() <-chan struct{} { return a.life.Done() }

// Err returns why the authority ended by itself; nil while it runs, and after
// Close.
func (a *Authority) Err() error { return a.life.Err() }

// Relays returns how many relays the authority knows.
func (a *Authority) Relays() int { return a.inner.Relays() }

// release closes the listeners that still are open and releases the lock of the
// data directory.
func (a *Authority) release() error {
	var errs []error
	for _, l := range a.ports {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fault.Wrap(fault.Local, err))
		}
	}
	return errors.Join(append(errs, a.dir.Close())...)
}
