package onion

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	libp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
)

// What a host of NewHost has if no option says otherwise.
const (
	// DefaultUserAgent is what peers are told of the program: libp2p would tell them the
	// name and version of the main module.
	DefaultUserAgent = "go-libp2p"
	// DefaultDialTimeout is how long a dial may take. libp2p's own 15 seconds are short for
	// an onion that is asked for the first time.
	DefaultDialTimeout = time.Minute
)

// NewHost returns a host that reaches others by onions, and is reached by its onion, and has
// no other way out: no other transport, no other address to listen at, no questions to name
// servers, to the router or to others about its address, and no relays of libp2p's. Noise
// protects its connections, and yamux carries their streams.
//
// opts are libp2p's own, such as libp2p.Identity, libp2p.ListenAddrs with an address of
// [ListenAddr], libp2p.ResourceManager and libp2p.ConnectionGater. Those that would open
// another way out are refused with [ErrConfig]. Peers may tell of other addresses: they are
// never dialled, and the host tells of its onion only.
//
// The client stays the caller's: it must outlive the host.
func NewHost(c *chive.Client, cfg Config, opts ...libp2p.Option) (host.Host, error) {
	return newHost(client{c}, cfg, opts...)
}

func newHost(t tor, cfg Config, opts ...libp2p.Option) (host.Host, error) {
	if err := cfg.check(); err != nil {
		return nil, err // before anything is made
	}
	var all libp2p.Config
	if err := all.Apply(opts...); err != nil {
		return nil, err
	}
	if err := private(&all); err != nil {
		return nil, err
	}
	listen := all.ListenAddrs
	all.ListenAddrs = nil // below: libp2p is content if one of several works
	made, err := complete(&all, newTransport(t, cfg))
	if err != nil {
		return nil, errors.Join(err, made.close())
	}
	h, err := all.NewNode()
	if err != nil {
		return nil, errors.Join(err, made.close())
	}
	for _, a := range listen {
		if err := listenAt(h, a); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	return h, nil
}

// listenAt has a host listen at one address. The interface's method Listen gives the text
// of an error only, and not the kind.
func listenAt(h host.Host, a ma.Multiaddr) error {
	if s, ok := h.Network().(*swarm.Swarm); ok {
		return s.AddListenAddr(a)
	}
	return h.Network().Listen(a)
}

// private returns an error if options would open another way out.
func private(cfg *libp2p.Config) error {
	for _, way := range []struct {
		open bool
		what string
	}{
		{len(cfg.Transports) > 0, "another transport"},
		{cfg.QUICReuse != nil || cfg.ShareTCPListener, "sockets for other transports"},
		{cfg.Relay || cfg.EnableRelayService || cfg.EnableAutoRelay, "libp2p's relays"},
		{cfg.EnableHolePunching, "hole punching"},
		{cfg.NATManager != nil, "questions to the router (NAT port mapping)"},
		{cfg.EnableAutoNATv2 || cfg.AutoNATConfig.EnableService, "questions about its address (AutoNAT)"},
		{cfg.MultiaddrResolver != nil, "a resolver of names"},
		{cfg.Insecure || len(cfg.SecurityTransports) > 0, "other protection than Noise"},
		{len(cfg.UserFxOptions) > 0, "parts that nobody can check (WithFxOption)"},
	} {
		if way.open {
			return fmt.Errorf("onion: an option gives the host %s: %w", way.what, ErrConfig)
		}
	}
	for _, a := range cfg.ListenAddrs {
		if _, err := hostPort(a); err != nil {
			return fmt.Errorf("%w: %w", err, ErrConfig)
		}
	}
	return nil
}

// parts are those of a host that NewHost made itself. A host closes them, but not if it
// could not be made.
type parts []io.Closer

func (p parts) close() error {
	var errs []error
	for _, c := range p {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// complete adds to a configuration what NewHost decides, and what no option has said.
func complete(cfg *libp2p.Config, t Constructor) (parts, error) {
	peerstore, limits, manager := cfg.Peerstore == nil, cfg.ResourceManager == nil, cfg.ConnManager == nil
	cfg.ConnectionGater = gate{cfg.ConnectionGater}
	cfg.MultiaddrResolver = noNames{}
	cfg.AddrsFactory = only(cfg.AddrsFactory)
	cfg.DisableIdentifyAddressDiscovery = true
	cfg.UserAgent = cmp.Or(cfg.UserAgent, DefaultUserAgent)
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, DefaultDialTimeout)
	if cfg.AutoNATConfig.ForceReachability == nil {
		// An onion is reached from everywhere, so that nobody must be asked.
		public := network.ReachabilityPublic
		cfg.AutoNATConfig.ForceReachability = &public
	}
	err := cfg.Apply(libp2p.Transport(t), libp2p.Security(noise.ID, noise.New), libp2p.DisableRelay(), libp2p.FallbackDefaults)
	var made parts
	if peerstore && cfg.Peerstore != nil {
		made = append(made, cfg.Peerstore)
	}
	if limits && cfg.ResourceManager != nil {
		made = append(made, cfg.ResourceManager)
	}
	if manager && cfg.ConnManager != nil {
		made = append(made, cfg.ConnManager)
	}
	return made, err
}
