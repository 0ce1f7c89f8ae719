package authority

import (
	"cmp"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
)

// Config has the settings of a directory authority. Reload can change the fields
// with the tag reload:"live".
type Config struct {
	// Network names all authorities, including this one.
	Network *chive.Network
	// DataDir keeps the state, and below "keys" the keys, in C tor's formats:
	// MakeKeys makes them, and so does tor-gencert.
	DataDir string
	Logger  *slog.Logger // nil: no log

	Nickname, Contact string
	// ORPort and DirPort are the addresses, "IP:PORT", at which the authority
	// listens and others find it. The ORPort serves directory streams and relays
	// nothing.
	ORPort, DirPort string

	// VotingInterval is the time between two votes: whole seconds, 10 at least.
	// VoteDelay and DistDelay are the times for the exchange of votes and of
	// signatures. Zero: an hour, and five minutes each.
	VotingInterval, VoteDelay, DistDelay time.Duration
	// The same times while there is no consensus. Zero: 30 minutes and five
	// minutes each.
	InitialVotingInterval, InitialVoteDelay, InitialDistDelay time.Duration
	IntervalsValid                                            int // how many intervals a consensus is valid for; 0: 3

	Params                         map[string]int32 // votes for consensus parameters
	ClientVersions, ServerVersions string           // recommended, comma-separated
	BandwidthFile                  string           // a v3bw file
	RelayList                      string           // path of C tor's approved-routers file
	ApprovedOnly                   bool             // take no relay that RelayList does not approve of
	IPv6                           bool             // test and vote on IPv6 addresses
	// Support048Clients serves clients of C tor's 0.4.8 series, which need obsolete
	// (TAP) keys of every relay: it refuses relays without such a key, and votes for
	// no consensus method newer than 35.
	Support048Clients bool

	// MaxMemory bounds what others can make the authority hold, in bytes: links,
	// circuits, requests and uploads, but not stored documents. Above it, the
	// authority closes the peers that hold the most. 0: chive.DefaultMaxMemory;
	// 32 MiB is the least.
	MaxMemory uint64 `reload:"live"`

	// AssumeReachable counts relays as running without a test.
	AssumeReachable bool
	// Testing gives every relay the Guard and HSDir flags and lets any number
	// of them share an address.
	Testing bool
	// WaitForRelays delays the first vote until the authority knows this many
	// relays.
	WaitForRelays int
	// PromptFirstRound has the first round begin at once when those relays are known, and end when all
	// authorities have voted and signed: the initial delays are the longest that it waits. It needs Testing,
	// and all authorities must be Chive's and have it.
	PromptFirstRound bool
}

// Check reports the first option that New would refuse. It reads the file
// RelayList, and opens nothing else: it does not check the keys.
func (cfg *Config) Check() error {
	_, err := cfg.inner()
	return err
}

// inner returns the configuration for the internal package, without keys and
// listeners.
func (cfg *Config) inner() (out authority.Config, err error) {
	if err := options.Authority.Check(cfg); err != nil {
		return out, err
	}
	switch {
	case cfg.Network == nil:
		return out, options.Wrong("Network", "an authority needs a network that names all authorities")
	case cfg.DataDir == "":
		return out, options.Wrong("DataDir", "an authority needs a data directory, with its keys in \"keys\" below it")
	case cfg.PromptFirstRound && !cfg.Testing:
		return out, options.Wrong("PromptFirstRound", "it is for private networks, which have Testing")
	case cfg.ApprovedOnly && cfg.RelayList == "":
		return out, options.Wrong("ApprovedOnly", "without a list of relays none is approved")
	}
	network, err := netfile.Of(cfg.Network)
	if err != nil {
		return out, err
	}
	out = authority.Config{
		Nickname: cfg.Nickname, Contact: cfg.Contact, Network: network, Dir: filepath.Join(cfg.DataDir, "state"), Log: cfg.Logger,
		Schedule: authority.Schedule{InitialInterval: cfg.InitialVotingInterval, InitialVoteDelay: cfg.InitialVoteDelay, InitialDistDelay: cfg.InitialDistDelay,
			Prompt: cfg.PromptFirstRound, Interval: cfg.VotingInterval, VoteDelay: cfg.VoteDelay, DistDelay: cfg.DistDelay, IntervalsValid: cfg.IntervalsValid},
		Accept: authority.AcceptConfig{AllowPrivateAddresses: network.Testing.AllowPrivateAddresses, ApprovedOnly: cfg.ApprovedOnly,
			AssumeReachable: cfg.AssumeReachable, IPv6: cfg.IPv6},
		ClientVersions: cfg.ClientVersions, ServerVersions: cfg.ServerVersions, BandwidthFile: cfg.BandwidthFile, WaitForRelays: cfg.WaitForRelays,
		MaxMemory: account.BoundOf(cfg.MaxMemory),
	}
	if cfg.Support048Clients {
		out.Methods = authority.Methods048()
	}
	for name, v := range cfg.Params {
		out.Params = append(out.Params, netdoc.Param{Name: name, Value: v})
	}
	slices.SortFunc(out.Params, func(a, b netdoc.Param) int { return cmp.Compare(a.Name, b.Name) })
	if cfg.Testing {
		out.Flags = authority.TestingFlags()
	}
	if cfg.RelayList != "" {
		if out.Accept.List, err = readRelayList(cfg.RelayList); err != nil {
			return out, err
		}
		out.Flags.ListBadExits, out.Flags.ListMiddleOnly = true, true
	}
	if out.ORPort, err = addrPort("ORPort", cfg.ORPort); err != nil {
		return out, err
	}
	if out.DirPort, err = addrPort("DirPort", cfg.DirPort); err != nil {
		return out, err
	}
	return out, out.CheckOptions()
}

func addrPort(field, s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return a, options.Wrong(field, "%q is not IP:PORT", s)
	}
	return a, nil
}
