package authority

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/options"
)

// Config has the settings of an authority. Comments name the defaults of zero
// fields.
type Config struct {
	Nickname string // as in votes: 1 to 19 letters and digits
	Contact  string // default "(none)"
	Hostname string // default the address
	Keys     *Keys
	// Network names all authorities, including this one, by their v3 identities.
	// This authority connects to the DirPorts of the others.
	Network *netdir.Network
	// ORPort and DirPort are where others find this authority.
	ORPort, DirPort netip.AddrPort
	// Listeners that Run serves and closes; each may be nil.
	ORListener, DirListener net.Listener

	Schedule Schedule
	Flags    FlagConfig
	Accept   AcceptConfig
	Params   netdoc.Params // votes for consensus parameters
	Methods  []int         // consensus methods to vote for, some of the package's Methods; default all
	Packages []string      // arguments of "package" lines, which methods before 34 have
	// ClientVersions and ServerVersions are the recommended versions, such as
	// "0.4.9.11,0.4.9.12". The authority votes on versions if one of them is set.
	ClientVersions, ServerVersions string
	BandwidthFile                  string // path of a v3bw file, read before every vote; empty: none

	// WaitForRelays delays the first votes until the authority knows this many
	// relays, so that a laboratory's first consensus is complete.
	WaitForRelays int

	// Dir is where state is kept: descriptors, consensuses, the shared random
	// state, relays' histories. Empty: in memory only.
	Dir string

	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) // default TCP
	Now  func() time.Time                                                 // default time.Now
	Rand io.Reader                                                        // default crypto/rand
	Log  *slog.Logger                                                     // default none
	// NewRSA makes the RSA keys of links, of a number of bits; default rsa.GenerateKey.
	NewRSA func(bits int) (*rsa.PrivateKey, error)
	// MaxMemory bounds what others can make the authority hold, in bytes:
	// uploads, requests, links and their circuits. Default 512 MiB.
	MaxMemory int64
	// Published is called with every published consensus; may be nil.
	Published func(*netdoc.Consensus)
	// TookOver is called when the authority has taken over a consensus that others published, and serves it in both
	// flavors; may be nil.
	TookOver func()
}

// Schedule says when authorities vote (dir-spec, "voting timeline").
type Schedule struct {
	// The first interval applies while there is no consensus. Its delays may be
	// below a second when all authorities are Chive's. Default 30 minutes, 5
	// minutes each.
	InitialInterval, InitialVoteDelay, InitialDistDelay time.Duration
	// Prompt has the first round begin at once, for the interval that has begun, and its steps end as soon as all
	// authorities have sent what they wait for: the initial delays are the longest that they wait. It is for a
	// laboratory, all of whose authorities are Chive's and have it.
	Prompt bool
	// The authority votes for Interval: whole seconds, and at least 10, the least
	// that C tor accepts in a testing network. Default 1 hour, delays 5 minutes
	// each.
	Interval, VoteDelay, DistDelay time.Duration
	IntervalsValid                 int // how many intervals a consensus is valid; default 3, at least 2
}

func (s *Schedule) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.InitialInterval, options.InitialVotingInterval)
	def(&s.InitialVoteDelay, options.VoteDelay)
	def(&s.InitialDistDelay, options.VoteDelay)
	def(&s.Interval, options.VotingInterval)
	def(&s.VoteDelay, options.VoteDelay)
	def(&s.DistDelay, options.VoteDelay)
	if s.IntervalsValid == 0 {
		s.IntervalsValid = options.IntervalsValid
	}
}

func (s *Schedule) check() error {
	switch {
	case s.InitialInterval < options.MinInitialVotingInterval || s.InitialInterval%time.Second != 0:
		return options.Wrong("InitialVotingInterval", "%v: whole seconds, one at least", s.InitialInterval)
	case s.Interval < options.MinVotingInterval || s.Interval%time.Second != 0 || s.Interval > options.MaxVotingInterval:
		return options.Wrong("VotingInterval", "%v: whole seconds, from %v to a day", s.Interval, options.MinVotingInterval)
	case s.VoteDelay < options.MinVoteDelay || s.DistDelay < options.MinVoteDelay || s.VoteDelay%time.Second != 0 || s.DistDelay%time.Second != 0:
		return options.Wrong("VoteDelay", "voting delays %v and %v: whole seconds, %v at least", s.VoteDelay, s.DistDelay, options.MinVoteDelay)
	case s.VoteDelay+s.DistDelay > s.Interval/2:
		return options.Wrong("VoteDelay", "voting delays %v and %v: together over half of the interval %v", s.VoteDelay, s.DistDelay, s.Interval)
	case s.InitialVoteDelay <= 0 || s.InitialDistDelay <= 0:
		return options.Wrong("InitialVoteDelay", "initial voting delays %v and %v must be positive", s.InitialVoteDelay, s.InitialDistDelay)
	case s.IntervalsValid < options.MinIntervalsValid:
		return options.Wrong("IntervalsValid", "%d: %d at least", s.IntervalsValid, options.MinIntervalsValid)
	}
	return nil
}

// check sets defaults and reports the first mistake.
func (c *Config) check() error {
	if c.Keys == nil {
		return fault.New(fault.Config, "an authority needs keys")
	}
	if err := c.CheckOptions(); err != nil {
		return err
	}
	if len(c.Methods) == 0 {
		c.Methods = Methods
	}
	for _, m := range c.Methods {
		if !slices.Contains(Methods, m) {
			return fault.New(fault.Config, "consensus method %d: this authority knows %v", m, Methods)
		}
	}
	for _, p := range c.Packages {
		if !validPackage(p) {
			return fault.New(fault.Config, "package %q is not NAME VERSION URL DIGESTTYPE=DIGEST ...", p)
		}
	}
	if c.Contact == "" {
		c.Contact = "(none)"
	}
	if c.Hostname == "" {
		c.Hostname = c.addr().String()
	}
	if _, ok := c.find(c.Keys.Cert.Identity); !ok {
		return fault.New(fault.Config, "the network does not name this authority's v3 identity %s", c.Keys.Cert.Identity)
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		}
	}
	if c.MaxMemory == 0 {
		c.MaxMemory = account.DefaultMaxMemory
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Flags.setDefaults()
	c.Accept.setDefaults()
	c.Schedule.setDefaults()
	return nil
}

// newestMethod returns the newest consensus method that the configuration supports.
func (a *Authority) newestMethod() int { return slices.Max(a.cfg.Methods) }

// CheckOptions reports the first mistake in the operator's settings. It needs no
// keys.
func (c *Config) CheckOptions() error {
	switch {
	case c.Network == nil:
		return options.Wrong("Network", "an authority needs a network that names all authorities")
	case c.Nickname == "" || len(c.Nickname) > 19 || strings.Trim(c.Nickname, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "":
		return options.Wrong("Nickname", "%q is not 1 to 19 letters and digits", c.Nickname)
	case strings.ContainsAny(c.Contact, "\r\n"):
		return options.Wrong("Contact", "it must be one line")
	case !c.DirPort.Addr().Is4() && !c.ORPort.Addr().Is4():
		return options.Wrong("DirPort", "an authority needs an IPv4 address to be found at")
	}
	s := c.Schedule
	s.setDefaults()
	return s.check()
}

// addr returns the authority's IPv4 address.
func (c *Config) addr() netip.Addr {
	if c.DirPort.Addr().Is4() {
		return c.DirPort.Addr()
	}
	return c.ORPort.Addr()
}

// find returns the authority with the v3 identity id.
func (c *Config) find(id ident.RSAID) (netdir.Authority, bool) {
	for _, a := range c.Network.Authorities {
		if a.V3Ident == id {
			return a, true
		}
	}
	return netdir.Authority{}, false
}
