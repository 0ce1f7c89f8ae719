package relay

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hibernate"
	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
)

// portSet is the open listeners of a relay: its ORPort's, and the DirPort's or nil.
type portSet struct {
	or  []net.Listener
	dir net.Listener
}

func (p *portSet) close() {
	if p == nil {
		return
	}
	for _, ln := range p.or {
		ln.Close()
	}
	if p.dir != nil {
		p.dir.Close()
	}
}

// openPorts opens the ports at these addresses.
func (c *Config) openPorts(or []netip.AddrPort, dir netip.AddrPort) (*portSet, error) {
	p := new(portSet)
	for _, a := range or {
		ln, err := c.openPort(tcpFor(a, or), a)
		if err != nil {
			p.close()
			return nil, options.In("ORPort", listen.Failed(a.String(), err))
		}
		p.or = append(p.or, ln)
	}
	if dir.IsValid() {
		var err error
		if p.dir, err = c.openPort("tcp", dir); err != nil {
			p.close()
			return nil, options.In("DirPort", listen.Failed(dir.String(), err))
		}
	}
	return p, nil
}

func (c *Config) openPort(network string, at netip.AddrPort) (net.Listener, error) {
	if c.OpenPort != nil {
		return c.OpenPort(at)
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // C tor has none, and a bridge's port must not tell by it what it is
	return inherit.Listen(&lc, network, at.String())
}

// reopenPorts opens the ports that New opened, with the same numbers.
func (r *Relay) reopenPorts() (*portSet, error) {
	or := make([]netip.AddrPort, len(r.listeners))
	for i, ln := range r.listeners {
		or[i] = netip.AddrPortFrom(r.cfg.Listen[i].Addr(), netaddr.OfPort(ln.Addr()).Port())
	}
	var dir netip.AddrPort
	if r.dirPort != nil {
		dir = netip.AddrPortFrom(r.cfg.DirListen.Addr(), r.cfg.DirPort)
	}
	return r.cfg.openPorts(or, dir)
}

// servedPorts are ports on which the relay serves.
type servedPorts struct {
	ports *portSet
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// servePorts serves on ports until they are closed.
func (r *Relay) servePorts(ctx context.Context, p *portSet) *servedPorts {
	ctx, stop := context.WithCancel(ctx)
	s := &servedPorts{ports: p, stop: stop}
	for _, ln := range p.or {
		s.wg.Go(panics.Keep(r.log, rest(ctx), func() { r.acceptLoop(ctx, ln, r.welcome) }))
	}
	if p.dir != nil {
		s.wg.Go(panics.Keep(r.log, rest(ctx), func() {
			if err := r.cache.server.Serve(ctx, dirListener{p.dir, r}); err != nil && !fault.Is(err, fault.Closed) {
				r.log.Error("the DirPort is closed", "err", err)
			}
		}))
	}
	return s
}

// close closes the ports and waits until nothing runs there: link handshakes under way are
// given up.
func (s *servedPorts) close() {
	if s != nil {
		s.stop()
		s.ports.close()
		s.wg.Wait()
	}
}

// rest waits a second before something starts again after a panic; false: ctx is done.
func rest(ctx context.Context) func() bool {
	return func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
			return true
		}
	}
}

// How long the relay waits, after it woke, before it tries again to open a port that another
// program has taken.
const (
	reopenRetry    = 5 * time.Second
	reopenRetryMax = 5 * time.Minute
)

// attend opens the ports while the accounting allows it, until ctx is done.
func (r *Relay) attend(ctx context.Context) {
	var open *servedPorts
	defer func() {
		if open != nil {
			open.close()
			r.opened.CompareAndSwap(open.ports, nil)
		}
	}()
	wait := reopenRetry
	for {
		state, changed := r.acct.now()
		var again <-chan time.Time
		switch {
		case state == hibernate.Awake && open == nil:
			p := r.opened.Load()
			var err error
			if p == nil {
				p, err = r.reopenPorts()
			}
			if err != nil {
				r.log.Warn("accounting: the relay may serve again, but cannot open its port", "err", err, "again_in", wait)
				again = time.After(wait)
				wait = min(2*wait, reopenRetryMax)
				break
			}
			wait = reopenRetry
			if r.opened.Store(p); r.shut.Load() { // the relay ends: closePorts may have come before
				p.close()
			}
			r.rise()
			open = r.servePorts(ctx, p)
		case state != hibernate.Awake && !r.resting.Load():
			r.retire()
			open.close()
			open = nil
			r.opened.Swap(nil).close()
		}
		if state == hibernate.Dormant {
			r.closeLinks()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

// retire makes the relay refuse what is new, and tell the authorities.
func (r *Relay) retire() {
	r.resting.Store(true)
	r.exit.Rest(true)
	r.publisher.changed()
}

// rise ends what retire began. The uptime in the descriptor begins anew, as in C tor.
func (r *Relay) rise() {
	if !r.resting.Swap(false) {
		return
	}
	r.exit.Rest(false)
	r.up.Store(time.Now().Unix())
	r.publisher.changed()
}

var errDormant = fault.Also(fault.New(fault.Closed, "the relay is dormant: its limit of bytes is used up"), net.ErrClosed)

// closeLinks closes every link, and with it the circuits and streams.
func (r *Relay) closeLinks() {
	for _, ch := range r.channels.Channels() {
		ch.Close(errDormant)
	}
}

// closeIdleLinks closes, of a dormant relay, the links without circuits: those over which it
// told the authorities. Padding would go on there.
func (r *Relay) closeIdleLinks() {
	for _, ch := range r.channels.Channels() {
		if n, _ := ch.Circuits(); n == 0 {
			ch.Close(errDormant)
		}
	}
}

// whileAwake runs f whenever the relay is not dormant, until f returns by itself or ctx is
// done. The context of f ends when the relay becomes dormant.
func (r *Relay) whileAwake(ctx context.Context, f func(context.Context)) {
	for r.acct.await(ctx, notDormant) {
		if r.untilDormant(ctx, f) == nil {
			return
		}
	}
}

// untilDormant runs f once; the error says whether its context ended.
func (r *Relay) untilDormant(ctx context.Context, f func(context.Context)) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(panics.Contain(r.log, func(error) { stop() }, func() {
		if r.acct.await(ctx, dormant) {
			stop()
		}
	}))
	f(ctx)
	return ctx.Err()
}
