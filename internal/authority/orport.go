package authority

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// orPort is an ORPort for directory streams (BEGIN_DIR). It relays nothing.
type orPort struct {
	a        *Authority
	server   *circuit.Server
	channels *channel.Manager
	identity *channel.RelayIdentity
	wg       sync.WaitGroup
	links    linkCount
	shaking  handshakes

	mu   sync.Mutex // guards what follows
	keys *channel.RelayKeys
	ctx  context.Context // of serve
}

const (
	// signingLife is the lifetime of the certificate of the medium-term signing
	// key. A process makes a new key when it starts and before this time ends.
	signingLife = 30 * 24 * time.Hour
	// renewBefore is how long before they expire link keys are replaced.
	renewBefore = 12 * time.Hour
	// linkLimit bounds the time of a link handshake, maxHandshakes the number in
	// progress: above it, the oldest one is closed.
	linkLimit     = 30 * time.Second
	maxHandshakes = 1000
	// maxCircuits bounds the circuits of one link: requests for documents need no
	// more.
	maxCircuits = 1024
)

func newORPort(a *Authority) (*orPort, error) {
	k := a.cfg.Keys
	if k.RSA == nil || k.Ed == nil {
		return nil, fault.New(fault.Config, "an ORPort needs relay identities")
	}
	o := &orPort{a: a}
	onion, err := handshake.GenerateNtorKeyPair(a.cfg.Rand)
	if err != nil {
		return nil, err
	}
	if _, err := o.linkKeys(); err != nil {
		return nil, err
	}
	params := flow.DefaultParams()
	o.server = circuit.NewServer(circuit.ServerConfig{
		Env: &circuit.Env{Log: a.log, Now: a.cfg.Now}, ID: o.keys.ID,
		Onion: func() []*handshake.NtorKeyPair { return []*handshake.NtorKeyPair{onion} },
		Flow:  func() *flow.Params { return &params },
		AllowTarget: func(*linkspec.Target) error {
			return fault.New(fault.Refused, "this authority relays nothing")
		},
		Streams: o,
		Stats:   &a.use.circuits,
	})
	cfg := &channel.Config{Log: a.log, Now: a.cfg.Now, Accept: o.server.Accept, MaxCircs: maxCircuits, Stats: &a.use.links, Memory: a.memory}
	o.channels = channel.NewManager(cfg, nil, nil) // it opens none
	a.channels.Store(o.channels)
	return o, nil
}

// linkKeys returns the keys for link handshakes. It makes new ones if the old
// ones expire soon.
func (o *orPort) linkKeys() (*channel.RelayKeys, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.a.cfg.Now()
	if o.keys != nil && o.keys.Last(now, renewBefore) {
		return o.keys, nil
	}
	signing, err := cert.GenerateExpanded(o.a.cfg.Rand)
	if err != nil {
		return nil, err
	}
	o.identity = channel.NewRelayIdentity(o.a.cfg.Keys.RSA, o.a.cfg.Keys.Ed, signing, now.Add(signingLife))
	o.identity.NewRSA = o.a.cfg.NewRSA
	keys, err := o.identity.NewRelayKeys(o.a.cfg.Rand, now)
	if err != nil {
		return nil, err
	}
	o.keys = keys
	return keys, nil
}

// serve accepts connections until ctx ends.
func (o *orPort) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.mu.Lock()
	o.ctx = ctx
	o.mu.Unlock()
	defer func() {
		cancel()
		o.channels.Close()
		o.server.Close()
		o.wg.Wait()
	}()
	o.wg.Go(panics.Contain(o.a.log, nil, func() { o.reap(ctx) }))
	return listen.Serve(ctx, l, o.a.log, "ORPort", func(raw net.Conn) {
		from := netaddr.Of(raw.RemoteAddr())
		leave, ok := o.links.enter(from, o.a.isAuthority(from), o.a.dir.Lists(from))
		if !ok {
			raw.Close()
			return
		}
		o.shaking.enter(raw)
		o.wg.Go(func() {
			defer panics.Recover(o.a.log, func(error) { raw.Close() })
			defer leave()
			if ch := o.shake(ctx, raw); ch != nil {
				<-ch.Done()
			}
		})
	})
}

// reap closes idle channels at intervals.
func (o *orPort) reap(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			o.channels.Reap()
		}
	}
}

// shake calls welcome, and then stops counting the handshake.
func (o *orPort) shake(ctx context.Context, raw net.Conn) *channel.Channel {
	defer o.shaking.leave(raw)
	return o.welcome(ctx, raw)
}

// welcome does the link handshake; it returns nil if the handshake fails.
func (o *orPort) welcome(ctx context.Context, raw net.Conn) *channel.Channel {
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	keys, err := o.linkKeys()
	if err != nil {
		o.a.log.Error("ORPort: link keys", "err", err)
		raw.Close()
		return nil
	}
	cfg := &channel.LinkConfig{Now: o.a.cfg.Now, Rand: o.a.cfg.Rand, Identity: keys, Addrs: []netip.Addr{o.a.cfg.addr()}, Log: o.a.log, Memory: o.a.memory}
	l, err := channel.Accept(ctx, raw, cfg)
	if err != nil {
		o.a.log.Debug("ORPort: link handshake", "err", err)
		return nil
	}
	ch, err := o.channels.Adopt(l)
	if err != nil {
		o.a.log.Debug("ORPort: channel", "err", err)
		return nil
	}
	return ch
}

// HandleStream implements circuit.StreamHandler: directory streams only.
func (o *orPort) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if m.Cmd != cell.RelayBeginDir {
		end := cell.End{Reason: cell.EndExitPolicy}
		return fault.Except(fault.Closed, h.Send(cell.RelayEnd, m.Stream, end.Append(nil)))
	}
	if refuse, gone := o.a.dir.Admit(h.Circuit()); gone {
		return nil
	} else if refuse {
		return h.RefuseStream(m.Stream, cell.End{Reason: cell.EndMisc})
	}
	o.mu.Lock()
	ctx := o.ctx
	o.mu.Unlock()
	serve, err := o.a.dir.Begin(ctx, h, m.Stream)
	if serve != nil {
		o.wg.Go(panics.Contain(o.a.log, nil, serve))
	}
	return err
}
