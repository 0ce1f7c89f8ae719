package options

import (
	"fmt"
	"strings"
	"time"
)

// The default times of voting, and the least values that other implementations
// accept: C tor's MIN_VOTE_INTERVAL_TESTING, MIN_VOTE_SECONDS and
// MIN_DIST_SECONDS.
const (
	VotingInterval        = time.Hour
	InitialVotingInterval = 30 * time.Minute
	VoteDelay             = 5 * time.Minute
	IntervalsValid        = 3

	MinVotingInterval        = 10 * time.Second
	MaxVotingInterval        = 24 * time.Hour
	MinInitialVotingInterval = time.Second
	MinVoteDelay             = 2 * time.Second
	MinIntervalsValid        = 2
)

// brief writes a time without zeros at its end.
func brief(d time.Duration) string {
	s := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, unit) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Authority is the options of a directory authority: the fields of its Config.
var Authority = Table{
	{"Files", []Option{
		{Key: "data-dir", Field: "DataDir", Help: "`DIR` of the keys, in DIR/keys, and the state"},
		{Key: "bandwidth-file", Field: "BandwidthFile", Help: "v3bw `FILE` with measurements of relays; it is read before each vote"},
		{Key: "relay-list", Field: "RelayList", Help: "`FILE` of relays to reject or to mark (C tor's approved-routers)"},
	}},
	{"Who the authority is", []Option{
		{Key: "nickname", Field: "Nickname", Help: "`NAME` in votes: 1 to 19 letters and digits"},
		{Key: "contact", Field: "Contact", Help: "`TEXT` by which others reach you; everybody can read it"},
		{Key: "orport", Field: "ORPort", Help: "`IP:PORT` for clients"},
		{Key: "dirport", Field: "DirPort", Help: "`IP:PORT` for relays and authorities"},
	}},
	{"Votes", []Option{
		{Key: "voting-interval", Field: "VotingInterval", Bounds: between(MinVotingInterval, MaxVotingInterval), Zero: brief(VotingInterval), Help: "`TIME` between votes, in whole seconds; all authorities need the same"},
		{Key: "vote-delay", Field: "VoteDelay", Bounds: between(MinVoteDelay, MaxVotingInterval/2), Zero: brief(VoteDelay), Help: "`TIME` for votes to be exchanged"},
		{Key: "dist-delay", Field: "DistDelay", Bounds: between(MinVoteDelay, MaxVotingInterval/2), Zero: brief(VoteDelay), Help: "`TIME` for signatures to be exchanged"},
		{Key: "initial-voting-interval", Field: "InitialVotingInterval", Bounds: between(MinInitialVotingInterval, MaxVotingInterval), Zero: brief(InitialVotingInterval), Help: "`TIME` between votes while there is no consensus"},
		{Key: "initial-vote-delay", Field: "InitialVoteDelay", Bounds: between(1, MaxVotingInterval/2), Zero: brief(VoteDelay), Help: "`TIME` for votes while there is no consensus"},
		{Key: "initial-dist-delay", Field: "InitialDistDelay", Bounds: between(1, MaxVotingInterval/2), Zero: brief(VoteDelay), Help: "`TIME` for signatures while there is no consensus"},
		{Key: "intervals-valid", Field: "IntervalsValid", Bounds: Bounds{MinIntervalsValid, 100}, Zero: fmt.Sprint(IntervalsValid), Help: "`NUMBER` of voting intervals that a consensus is valid for"},
		{Key: "param", Field: "Params", Help: "vote for a consensus parameter: `NAME=NUMBER`"},
		{Key: "client-versions", Field: "ClientVersions", Help: "`VERSIONS` of clients to recommend, between commas"},
		{Key: "server-versions", Field: "ServerVersions", Help: "`VERSIONS` of relays to recommend, between commas"},
		{Key: "support-048-clients", Field: "Support048Clients", Help: "serve clients of C tor 0.4.8: relays without a TAP key are refused, and consensus methods over 35 not used"},
		{Key: "wait-for-relays", Field: "WaitForRelays", Bounds: Bounds{0, 1 << 20}, Help: "hold the first vote back until this `NUMBER` of relays is known"},
		{Key: "prompt-first-round", Field: "PromptFirstRound", Help: "for private networks whose authorities all have it: begin the first round when these relays are known, and end it when nothing is missing"},
	}},
	{"Relays", []Option{
		{Key: "approved-only", Field: "ApprovedOnly", Help: "take no relay that the list of --relay-list does not approve"},
		{Key: "ipv6", Field: "IPv6", Help: "test relays' IPv6 addresses too, and vote on them"},
		{Key: "assume-reachable", Field: "AssumeReachable", Help: "count relays as running without a test"},
		{Key: "testing", Field: "Testing", Help: "for private networks: every relay gets the flags Guard and HSDir, and any number of relays may share an address"},
	}},
	{"Limits", []Option{maxMemory("authority", fixedMemory)}},
}
