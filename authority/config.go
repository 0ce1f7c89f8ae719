package authority

import (
	"log/slog"
	"time"

	"github.com/chivenet/chive"
)

// Config is what a directory authority needs to be told. Reload takes over the
// fields that are marked with reload:"live".
type Config struct {
	// Network names all authorities, this one among them.
	Network *chive.Network
	// DataDir keeps the state, and below "keys" the keys, in C tor's formats:
	// MakeKeys makes them, and so does tor-gencert.
	DataDir string
	Logger  *slog.Logger // nil is silence

	Nickname, Contact string
	// ORPort and DirPort are where to listen and to be found, "IP:PORT". The
	// ORPort serves directory streams and relays nothing.
	ORPort, DirPort string

	// VotingInterval is how often the authorities vote, whole seconds, 10 at
	// least; VoteDelay and DistDelay how long votes and signatures take. Zero: an
	// hour and five minutes each.
	VotingInterval, VoteDelay, DistDelay time.Duration
	// The same while there is no consensus. Zero: 30 minutes and five minutes
	// each.
	InitialVotingInterval, InitialVoteDelay, InitialDistDelay time.Duration
	IntervalsValid                                            int // of a consensus; 0: 3

	Params                         map[string]int32 // votes for consensus parameters
	ClientVersions, ServerVersions string           // recommended, comma-separated
	BandwidthFile                  string           // a v3bw file
	RelayList                      string           // path of C tor's approved-routers file
	ApprovedOnly                   bool             // take no relay that RelayList does not approve of
	IPv6                           bool             // test and vote on IPv6 addresses

	// MaxMemory bounds what others can make the authority hold, in bytes: links,
	// circuits, requests and uploads, without documents that are kept. Over it,
	// those that hold the most are closed. 0: chive.DefaultMaxMemory; 32 MiB is the
	// least.
	MaxMemory uint64 `reload:"live"`

	// AssumeReachable counts relays as running without a test.
	AssumeReachable bool
	// Testing gives every relay the Guard and HSDir flags and lets any number
	// of them share an address.
	Testing bool
	// WaitForRelays holds the first vote back until so many relays are known.
	WaitForRelays int
}
