package experiment

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// Ports of the hosts.
const (
	orPort   = 9001
	dirPort  = 9030
	echoPort = 7007
	webPort  = 8080
)

// When C tor's authorities vote. While there is no consensus, each ten seconds: that must be a part of 30 minutes, and more than
// twice the delays, which are two seconds at least. Later rounds are far apart, as a round costs time; but not
// as far as elsewhere: a relay whose descriptor came late is in the next one only.
const (
	torInitial = 10 * time.Second
	torFirst   = 12 * time.Second // from the start to the first consensus: relays need some seconds before the votes
	torDelay   = 2 * time.Second
	torRounds  = time.Minute
)

// torrc is a node's configuration. soon is when the first consensus is valid.
func (n *torNode) torrc(dir string, authorities []netdir.Authority, soon time.Time) []byte {
	s := func(d time.Duration) int { return int(d / time.Second) }
	out := []string{"TestingTorNetwork 1", "DataDirectory " + filepath.Join(dir, n.name), "Nickname " + n.name, "Log notice stdout", "SafeLogging 0",
		"GeoIPFile /dev/null", "GeoIPv6File /dev/null", "SocksPort 0", "ContactInfo emulated",
		"Address " + n.addr.String(), fmt.Sprintf("ORPort %v IPv4Only", netip.AddrPortFrom(n.addr, orPort)), "AssumeReachable 1",
		"ServerDNSDetectHijacking 0", "ServerDNSTestAddresses", "ServerDNSAllowBrokenConfig 1"}
	if n.program == ProgramTor {
		// Relays of C tor build circuits of their own, and exits refuse those of relays that their consensus lacks: it may be
		// older than the client's, and without one that came late. Chive's relays do neither in a network for tests.
		out = append(out, "PathsNeededToBuildCircuits 0.67", "__DisablePredictedCircuits 1", "UseEntryGuards 0", "RefuseUnknownExits 0")
	}
	for _, a := range authorities {
		out = append(out, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s %s %s", a.Nickname, orPort, a.V3Ident, a.DirPort, a.RSA))
	}
	switch n.role {
	case RoleExit:
		out = append(out, "ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ExitPolicyRejectLocalInterfaces 0")
	case RoleAuthority:
		out = append(out, "ExitRelay 0", "ExitPolicy reject *:*",
			"AuthoritativeDirectory 1", "V3AuthoritativeDirectory 1", fmt.Sprintf("DirPort %v IPv4Only", netip.AddrPortFrom(n.addr, dirPort)),
			fmt.Sprint("TestingV3AuthInitialVotingInterval ", s(torInitial)), fmt.Sprint("TestingV3AuthInitialVoteDelay ", s(torDelay)),
			fmt.Sprint("TestingV3AuthInitialDistDelay ", s(torDelay)), fmt.Sprint("TestingV3AuthVotingStartOffset ", soon.Unix()%int64(s(torInitial))),
			fmt.Sprint("V3AuthVotingInterval ", s(torRounds)), fmt.Sprint("V3AuthVoteDelay ", s(torDelay)), fmt.Sprint("V3AuthDistDelay ", s(torDelay)),
			"V3AuthNIntervalsValid 60",
			"TestingAuthDirTimeToLearnReachability 0", "TestingMinExitFlagThreshold 0", "TestingMinFastFlagThreshold 0", "TestingDirAuthVoteGuard *",
			"TestingDirAuthVoteHSDir *", "AuthDirVoteStableGuaranteeMinUptime 0", "AuthDirFastGuarantee 1", "AuthDirMaxServersPerAddr 0",
			"MinUptimeHidServDirectoryV2 0", "AuthDirTestReachability 0")
	default:
		out = append(out, "ExitRelay 0", "ExitPolicy reject *:*")
	}
	return []byte(strings.Join(out, "\n") + "\n")
}
