package authority

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/role"
)

// Authority is a running directory authority. Its methods may be called from any
// goroutine.
type Authority struct {
	inner *authority.Authority
	life  *role.Life
	lock  *flock.Flock
	ports []net.Listener
	mu    sync.Mutex
	cfg   Config // guarded by mu: as New or the last Reload got it
}

// New starts an authority. It checks cfg, locks the data directory, loads the
// keys and the state and opens the ports; it waits for nothing on the network.
// Close ends the authority.
func New(cfg Config) (*Authority, error) {
	if err := options.Authority.Check(&cfg); err != nil {
		return nil, err
	}
	if cfg.Network == nil || cfg.DataDir == "" {
		return nil, fault.New(fault.Config, "authority: a network and a data directory are needed")
	}
	if cfg.ApprovedOnly && cfg.RelayList == "" {
		return nil, fault.New(fault.Config, "authority: without a list of relays none is approved of")
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fault.New(fault.Local, "data directory: %w", err)
	}
	a := &Authority{cfg: cfg, lock: flock.New(filepath.Join(cfg.DataDir, "lock"))}
	ok, err := a.lock.TryLock()
	if err != nil {
		return nil, fault.New(fault.Local, "lock the data directory %s: %w", cfg.DataDir, err)
	}
	if !ok {
		return nil, fault.New(fault.Config, "the data directory %s is in use", cfg.DataDir)
	}
	if err := a.open(cfg); err != nil {
		return nil, errors.Join(err, a.release())
	}
	a.life = role.Start(cfg.Logger, func(ctx context.Context) (err error) {
		defer func() { err = errors.Join(err, a.release()) }()
		return a.inner.Run(ctx)
	})
	return a, nil
}

func (a *Authority) open(cfg Config) error {
	network, err := netfile.Of(cfg.Network)
	if err != nil {
		return err
	}
	keys, err := authority.LoadKeys(filepath.Join(cfg.DataDir, "keys"), rand.Reader, time.Now())
	if err != nil {
		return err
	}
	if open := authority.ExposedKeys(filepath.Join(cfg.DataDir, "keys")); open != nil && cfg.Logger != nil {
		cfg.Logger.Warn("others on this machine can get at the authority's keys: they are for its user alone (chmod go-rwx)", "paths", open)
	}
	out := authority.Config{
		Nickname: cfg.Nickname, Contact: cfg.Contact, Keys: keys, Network: network, Dir: filepath.Join(cfg.DataDir, "state"), Log: cfg.Logger,
		Schedule: authority.Schedule{InitialInterval: cfg.InitialVotingInterval, InitialVoteDelay: cfg.InitialVoteDelay, InitialDistDelay: cfg.InitialDistDelay,
			Interval: cfg.VotingInterval, VoteDelay: cfg.VoteDelay, DistDelay: cfg.DistDelay, IntervalsValid: cfg.IntervalsValid},
		Accept: authority.AcceptConfig{AllowPrivateAddresses: network.Testing.AllowPrivateAddresses, ApprovedOnly: cfg.ApprovedOnly,
			AssumeReachable: cfg.AssumeReachable, IPv6: cfg.IPv6},
		ClientVersions: cfg.ClientVersions, ServerVersions: cfg.ServerVersions, BandwidthFile: cfg.BandwidthFile, WaitForRelays: cfg.WaitForRelays,
	}
	out.MaxMemory = account.BoundOf(cfg.MaxMemory)
	for name, v := range cfg.Params {
		out.Params = append(out.Params, netdoc.Param{Name: name, Value: v})
	}
	sort.Slice(out.Params, func(i, j int) bool { return out.Params[i].Name < out.Params[j].Name })
	if cfg.Testing {
		out.Flags = authority.TestingFlags()
	}
	if cfg.RelayList != "" {
		if out.Accept.List, err = readRelayList(cfg.RelayList); err != nil {
			return err
		}
		out.Flags.ListBadExits, out.Flags.ListMiddleOnly = true, true
	}
	for _, p := range []struct {
		what, addr string
		at         *netip.AddrPort
		l          *net.Listener
	}{{"ORPort", cfg.ORPort, &out.ORPort, &out.ORListener}, {"DirPort", cfg.DirPort, &out.DirPort, &out.DirListener}} {
		want, err := netip.ParseAddrPort(p.addr)
		if err != nil {
			return fault.New(fault.Config, "%s: %w", p.what, err)
		}
		l, err := net.Listen("tcp", want.String())
		if err != nil {
			return fault.New(fault.Local, "%s: %w", p.what, err)
		}
		a.ports = append(a.ports, l)
		*p.at, *p.l = l.Addr().(*net.TCPAddr).AddrPort(), l
	}
	a.inner, err = authority.New(out)
	return err
}

func readRelayList(path string) (*authority.RelayList, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Config, "relay list: %w", err)
	}
	return authority.ParseRelayList(text)
}

// Reload reads the file that RelayList names again, for descriptors that come from
// now on and for the next vote, and takes over the fields of cfg that Config marks
// with reload:"live". The other fields must be as New got them: ErrConfig names
// those that are not. After an error everything is as before.
func (a *Authority) Reload(cfg Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := role.CheckReload(&a.cfg, &cfg); err != nil {
		return err
	}
	if err := options.Authority.Check(&cfg); err != nil {
		return err
	}
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
}

// Config returns the configuration as New or the last Reload got it.
func (a *Authority) Config() Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

// Close ends the authority at once and waits until no goroutine of it is left. The
// error says what could not be saved or released. It may be called again.
func (a *Authority) Close() error { return a.life.Close() }

// Done is closed when the authority has ended: by Close, or because it could not
// go on, and Err says why.
func (a *Authority) Done() <-chan struct{} { return a.life.Done() }

// Err returns why the authority ended by itself; nil while it runs, and after
// Close.
func (a *Authority) Err() error { return a.life.Err() }

// Relays returns how many relays the authority knows.
func (a *Authority) Relays() int { return a.inner.Relays() }

// release gives back what New took.
func (a *Authority) release() error {
	var errs []error
	for _, l := range a.ports {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fault.Wrap(fault.Local, err))
		}
	}
	return errors.Join(append(errs, a.lock.Unlock())...)
}
