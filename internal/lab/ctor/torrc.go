package ctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
)

// srvRounds is how many voting intervals a run of the protocol for shared random values
// has; in a network for tests, a time period of onion services has as many.
const srvRounds = 24

// torrc returns the whole configuration of one node.
func (nw *Network) torrc(n *Node) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, l := range nw.common() {
		line("%s", l)
	}
	line("DataDirectory %s", n.Dir)
	line("Nickname %s", n.Name)
	line("Log %s file %s", nw.opts.LogLevel, n.LogPath)
	line("ControlPort %s", n.ControlAddr)
	line("CookieAuthentication 1")
	if nw.opts.Scheduler != "" {
		line("Schedulers %s", nw.opts.Scheduler)
	}
	switch n.Role {
	case Client:
		line("SocksPort %s", n.SOCKS)
		// A client's guards must not depend on how long the network has run.
		line("UseEntryGuards 1")
		line("ClientUseIPv6 1")
		line("Log [circ,rend]info file %s", n.circuitLog())
	default:
		nw.relayLines(n, line)
	}
	for _, key := range []string{"*", n.Role.String(), n.Name} {
		for _, l := range nw.opts.Extra[key] {
			line("%s", l)
		}
	}
	return b.String()
}

// common returns the lines that every tor of this network needs, also a client that
// the caller starts itself.
func (nw *Network) common() []string {
	out := []string{
		"TestingTorNetwork 1",
		"SafeLogging 0",
		"ProtocolWarnings 1",
		"ShutdownWaitLength 2",
		"PathsNeededToBuildCircuits 0.67",
		"TestingEnableConnBwEvent 0",
		"TestingEnableCellStatsEvent 0",
		// GeoIP costs 35 MB and a fifth of a second of CPU at every start, and has
		// no data for loopback.
		"GeoIPFile /dev/null",
		"GeoIPv6File /dev/null",
		// EnforceDistinctSubnets is off in testing networks unless asked for.
		"EnforceDistinctSubnets " + bit(nw.opts.DistinctSubnets),
		// tor ends when this process dies. This is a second safeguard after the
		// parent-death signal.
		fmt.Sprintf("__OwningControllerProcess %d", nw.owner),
	}
	for _, a := range nw.Authorities() {
		six := ""
		if a.OR6.IsValid() {
			six = fmt.Sprintf(" ipv6=%v", a.OR6)
		}
		out = append(out, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s%s %s %s",
			a.Name, a.OR.Port(), a.V3Ident, six, a.DirPort, a.ID.RSA))
	}
	for _, a := range nw.opts.DirAuthorities {
		out = append(out, "DirAuthority "+a)
	}
	return out
}

func (nw *Network) relayLines(n *Node, line func(string, ...any)) {
	line("SocksPort 0")
	line("Address %s", n.OR.Addr())
	line("ORPort %s IPv4Only", n.OR)
	if n.OR6.IsValid() {
		line("Address [%s]", n.OR6.Addr())
		line("ORPort %s IPv6Only", n.OR6)
		line("AssumeReachableIPv6 1")
	}
	if nw.opts.DistinctSubnets {
		line("OutboundBindAddressOR %s", n.OR.Addr())
	}
	line("ContactInfo private network %s", n.Name)
	line("AssumeReachable 1")
	// Relays pre-build circuits, too, and again after some minutes. For those of
	// onion services, tor allows the guard to be the last hop and itself to be the
	// second. With few relays, some paths turn back, and the relay where they do
	// logs a warning.
	line("__DisablePredictedCircuits 1")
	line("UseEntryGuards 0")
	line("ServerDNSDetectHijacking 0")
	line("ServerDNSTestAddresses")
	line("ServerDNSAllowBrokenConfig 1")
	line("ServerDNSResolvConfFile %s", nw.resolvConf)
	line("ServerDNSSearchDomains 0")
	if n.Role == Exit {
		line("ExitRelay 1")
		line("IPv6Exit %s", bit(n.OR6.IsValid()))
		for _, p := range nw.opts.ExitPolicy {
			line("ExitPolicy %s", p)
		}
		line("ExitPolicyRejectPrivate 0")
		line("ExitPolicyRejectLocalInterfaces 0")
	} else {
		line("ExitRelay 0")
		line("ExitPolicy reject *:*")
	}
	if n.Role == Authority {
		nw.authorityLines(n, line)
	}
}

func (nw *Network) authorityLines(n *Node, line func(string, ...any)) {
	line("AuthoritativeDirectory 1")
	line("V3AuthoritativeDirectory 1")
	line("DirPort %s IPv4Only", n.DirPort)
	// The first vote waits until Network.vote asks for it: until then the next
	// one is as far off as tor's options allow (half an hour at the least from
	// now, by the offset).
	line("TestingV3AuthInitialVotingInterval %d", holdInterval)
	line("TestingV3AuthVotingStartOffset %d", nw.holdOffset)
	line("TestingV3AuthInitialVoteDelay 2")
	line("TestingV3AuthInitialDistDelay 2")
	line("V3AuthVotingInterval %d", int(nw.opts.VotingInterval/time.Second))
	line("V3AuthVoteDelay 2")
	line("V3AuthDistDelay 2")
	line("V3AuthNIntervalsValid %d", nw.opts.ValidIntervals)
	line("TestingAuthDirTimeToLearnReachability 0")
	line("TestingMinExitFlagThreshold 0")
	line("TestingMinFastFlagThreshold 0")
	line("TestingDirAuthVoteGuard *")
	// Guards must be Stable and Fast too: by the thresholds those relays are not
	// that started a second later than half of the others.
	line("AuthDirVoteStableGuaranteeMinUptime 0")
	line("AuthDirFastGuarantee 1")
	line("TestingDirAuthVoteHSDir *")
	line("AuthDirMaxServersPerAddr 0")
	line("MinUptimeHidServDirectoryV2 0")
	// Without reachability tests every relay counts as running from the start;
	// but IPv6 addresses are listed only if a test has found them.
	line("AuthDirTestReachability %s", bit(nw.opts.IPv6))
	line("AuthDirHasIPv6Connectivity %s", bit(nw.opts.IPv6))
	line("V3BandwidthsFile %s", nw.bandwidths)
	params := map[string]int{}
	// C tor knows how long a time period of a network for tests is; Arti must be told.
	if minutes := int(srvRounds * nw.opts.VotingInterval / time.Minute); minutes >= hscrypto.MinPeriod {
		params["hsdir_interval"] = minutes
	}
	maps.Copy(params, nw.opts.Params)
	for _, k := range slices.Sorted(maps.Keys(params)) {
		line("ConsensusParams %s=%d", k, params[k])
	}
}

// Torrc returns the lines that a C tor client needs to use the network, without
// a data directory or ports.
func (nw *Network) Torrc() string { return strings.Join(nw.common(), "\n") + "\n" }

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
