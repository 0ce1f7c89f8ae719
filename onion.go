package chive

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/internal/stream"
)

// Listen starts an onion service, whose address is known at once. Clients can connect
// when WaitPublished has returned. The listener ends with its Close, or with the client.
// ctx bounds the start only, which waits for nothing on the network.
func (c *Client) Listen(ctx context.Context, cfg OnionConfig) (*OnionListener, error) {
	if ctx.Err() != nil {
		return nil, fault.Ended(ctx, "onion service: %w", context.Cause(ctx))
	}
	cfg = role.Copy(cfg)
	var lock *role.Dir
	var err error
	if cfg.KeyDir != "" {
		if lock, err = role.OpenServiceDir(cfg.KeyDir); err != nil {
			return nil, err
		}
	}
	l, err := c.listen(cfg, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

func (c *Client) listen(cfg OnionConfig, lock *role.Dir) (*OnionListener, error) {
	if cfg.SingleOnion != "" && cfg.SingleOnion != HostCanBeFound {
		return nil, fault.New(fault.Config, "onion service: SingleOnion is %q: it is empty or %q", cfg.SingleOnion, HostCanBeFound)
	}
	in := hsservice.Config{Name: cfg.Name, Single: cfg.SingleOnion == HostCanBeFound, Fleet: cfg.Fleet, Ended: lock.Close}
	var err error
	if in.Key, err = cfg.key(); err != nil {
		return nil, err
	}
	if in.Live, err = cfg.live(); err != nil {
		return nil, err
	}
	if in.Masters, err = cfg.masters(); err != nil {
		return nil, err
	}
	if in.Backends, err = hsservice.ParsePeers("backend", cfg.Backends); err != nil {
		return nil, err
	}
	s, err := c.inner.Listen(in)
	if err != nil {
		return nil, err
	}
	return &OnionListener{s: s, key: in.Key, lock: lock, given: cfg}, nil
}

// OnionListener is an onion service that runs: a net.Listener for the connections of
// its clients. Its methods may be called from any goroutine.
type OnionListener struct {
	s    *hsservice.Service
	key  *hsservice.Key
	lock *role.Dir // of the key's directory; nil: it has none

	mu    sync.Mutex
	given OnionConfig // guarded by mu: the argument of Listen, or of the last Reload

	closing sync.Once
	closed  error // the result of Close; written in closing
}

// Accept returns the next connection, an *OnionConn. One whose client goes before that is left
// out, five seconds later if the client had sent data.
func (l *OnionListener) Accept() (net.Conn, error) {
	c, err := l.s.Accept()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tor", Addr: l.Addr(), Err: err}
	}
	return &OnionConn{c: c, local: stream.Addr{Host: net.JoinHostPort(l.Address(), strconv.Itoa(int(c.Port())))}}, nil
}

// Address returns the onion address: 56 letters and digits, and ".onion".
func (l *OnionListener) Address() string { return l.key.Address() }

// Addr returns the onion address; if OnionConfig.Ports has one port, with that port.
func (l *OnionListener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ports := l.given.Ports; len(ports) == 1 { // Config would copy the secret key, too
		return stream.Addr{Host: net.JoinHostPort(l.Address(), strconv.Itoa(ports[0]))}
	}
	return stream.Addr{Host: l.Address()}
}

// Key returns the service's secret key, for OnionConfig.Key of a later start.
func (l *OnionListener) Key() OnionKey { return OnionKey{l.key} }

// WaitPublished waits until clients can find the service: its descriptor is with the
// directories, and another circuit has fetched it from one of them. In a fleet, the
// descriptors of both time periods name this host by then. If ctx ends first, the error
// says what went wrong last.
func (l *OnionListener) WaitPublished(ctx context.Context) error { return l.s.WaitPublished(ctx) }

// Leave has a host leave its fleet (OnionConfig.Fleet) with hardly a client lost. First it
// takes its introduction points out of the descriptor, so that new clients go to the other
// hosts. When the descriptor is with the directories, it goes on for five seconds, and closes
// its introduction points then. Clients that have asked before
// are met, and connections may go on for half a minute; Accept returns new ones meanwhile.
// Leave returns when there are no more, when that time is over, or when ctx ends. Close must
// follow. If no other host is known, or the service is no fleet, Leave does nothing. An error
// says that the introduction points are still in the descriptor.
func (l *OnionListener) Leave(ctx context.Context) error { return l.s.Leave(ctx) }

// Close ends the service with all its connections, and waits until no goroutine of it
// is left.
func (l *OnionListener) Close() error {
	l.closing.Do(func() {
		l.s.Close()
		l.closed = l.lock.Close()
	})
	return l.closed
}

// name returns the service's name. Config would copy the secret key, too.
func (l *OnionListener) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given.Name
}

// Config returns the configuration that Listen or the last successful Reload received.
func (l *OnionListener) Config() OnionConfig {
	l.mu.Lock()
	defer l.mu.Unlock()
	return role.Copy(l.given)
}

// Reload takes over the fields of cfg that may change while the service runs: those that
// OnionConfig marks with reload:"live", and the authorized clients of KeyDir. Open
// connections go on. Directories get a new descriptor if it changes. When a client is no
// longer authorized, the service also gets new introduction points, because the client
// knows the old ones. A backend (OnionConfig.Masters) gets new ones with each Reload: its
// frontend may have removed a client. The other fields must be as Listen got them:
// ErrConfig names those that are not. After an error everything is as before.
func (l *OnionListener) Reload(cfg OnionConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	live, err := l.next(&cfg)
	if err != nil {
		return err
	}
	if err := l.s.Reload(live); err != nil {
		return err
	}
	l.given = cfg
	return nil
}

// CheckReload returns the error that Reload would return, and changes nothing: a program
// that reloads several things can check all of them first.
func (l *OnionListener) CheckReload(cfg OnionConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	live, err := l.next(&cfg)
	if err != nil {
		return err
	}
	return l.s.CheckReload(live)
}

// next returns what a reload makes of cfg, which it completes. The caller has the mutex.
func (l *OnionListener) next(cfg *OnionConfig) (hsservice.Live, error) {
	if err := role.CheckReload(&l.given, cfg); err != nil {
		return hsservice.Live{}, err
	}
	*cfg = role.Copy(*cfg)
	role.KeepFixed(&l.given, cfg) // for CheckReload, no Ports are as nil, which means all
	return cfg.live()
}
