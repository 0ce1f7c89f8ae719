package shadow

import (
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
)

// Names of files in the directory of data, and of a host there. Hosts see the first two levels up.
const (
	experimentName = experiment.FileName
	networkName    = "network.toml"
	weightsName    = "v3bw"
	emptyName      = "empty"
	resolvName     = "resolv.conf"
	hostsDir       = "hosts"
	torrcName      = "torrc"
	stateDir       = "state"
	resultsDir     = "results"
	fetchesName    = "fetches.csv"
)

// up is a file of the directory of data, as hosts name it.
func up(name string) string { return path.Join("../..", name) }

// When things begin, in the simulation.
const (
	authoritiesAt = time.Second
	relaysAt      = 3 * time.Second
	clientsAt     = 45 * time.Second
	loadAt        = 120 * time.Second
	relaysApart   = 10 * time.Millisecond
	clientsApart  = 37 * time.Millisecond

	firstRound = 20 * time.Second // between votes while there is no consensus
	firstDelay = 4 * time.Second
	roundDelay = 20 * time.Second
	validFor   = 12 // rounds
)

// process is one program on a host.
type process struct {
	path  string
	args  []string
	start time.Duration
	ends  bool // by itself, with 0
}

// processes are what runs on a host. i is its number among those of its role.
func (p *plan) processes(h *host, i int) []process {
	node := func(args ...string) process {
		return process{path: p.Lab, args: append([]string{"shadow", "node"}, args...), start: clientsAt}
	}
	local := func(port uint16) string {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String()
	}
	later := time.Duration(i)
	switch h.role {
	case experiment.RoleAuthority:
		return []process{p.program(p.Relays, h, "authority", authoritiesAt)}
	case experiment.RoleRelay, experiment.RoleExit:
		out := []process{p.program(p.Relays, h, "relay", relaysAt+later*relaysApart)}
		if h == p.named[p.File.Path[len(p.File.Path)-1]] {
			out = append(out, node("target", "--echo", local(echoPort), "--web", local(webPort)))
		}
		return out
	case roleServer:
		return []process{node("target", "--web", netip.AddrPortFrom(h.addr, webPort).String())}
	case roleUser:
		fetch := node("fetch", "--target", netip.AddrPortFrom(p.with(roleServer)[0].addr, webPort).String(), "--name", p.Clients,
			"--pause", p.Pause.String(), "--seed", strconv.FormatUint(p.File.Seed<<16+uint64(i), 10), "--out", fetchesName)
		fetch.start = loadAt + later*clientsApart
		return []process{p.program(p.Clients, h, "proxy", clientsAt+later*clientsApart), fetch}
	}
	m := node("measure", "--experiment", up(experimentName), "--network", up(networkName), "--path", strings.Join(p.path(), ","),
		"--echo", local(echoPort), "--web", local(webPort), "--out", resultsDir)
	m.ends, m.start = true, loadAt
	return []process{m}
}

// program runs a node.
func (p *plan) program(program string, h *host, role string, at time.Duration) process {
	if program == Tor {
		return process{path: p.Tor, args: []string{"--defaults-torrc", up(emptyName), "-f", torrcName, "--hush"}, start: at}
	}
	args := []string{role, "--config", up(emptyName), "--network", up(networkName), "--data-dir", stateDir}
	or := netip.AddrPortFrom(h.addr, orPort).String()
	switch h.role {
	case roleUser:
		args = append(args, "--socks", proxyAt)
	case experiment.RoleAuthority:
		args = append(args, "--nickname", h.name, "--contact", "simulated", "--orport", or, "--dirport", netip.AddrPortFrom(h.addr, dirPort).String(),
			"--testing", "--assume-reachable", "--bandwidth-file", up(weightsName),
			"--wait-for-relays", strconv.Itoa(len(p.with(experiment.RoleRelay, experiment.RoleExit))),
			"--initial-voting-interval", firstRound.String(), "--initial-vote-delay", firstDelay.String(), "--initial-dist-delay", firstDelay.String(),
			"--voting-interval", rounds.String(), "--vote-delay", roundDelay.String(), "--dist-delay", roundDelay.String(), "--intervals-valid", strconv.Itoa(validFor))
	default:
		args = append(args, "--nickname", h.name, "--contact", "simulated", "--orport", or, "--assume-reachable", "--shutdown-wait", "-1s")
		if h.role == experiment.RoleExit {
			args = append(args, "--exit-policy", "accept *:*", "--exit-private", "--nameserver", "127.0.0.1:53")
		}
	}
	return process{path: p.Chive, args: args, start: at}
}

// torrc is the configuration of a node of C tor.
func (p *plan) torrc(h *host) []byte {
	out := []string{"TestingTorNetwork 1", "DataDirectory " + stateDir, "Nickname " + h.name, "Log notice stdout", "SafeLogging 0",
		"GeoIPFile /dev/null", "GeoIPv6File /dev/null", "EnforceDistinctSubnets 1", "PathsNeededToBuildCircuits 0.67", "ServerDNSResolvConfFile " + up(resolvName)}
	for _, a := range p.with(experiment.RoleAuthority) {
		k := &a.keys.auth
		out = append(out, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s %s %s", k.Nickname, orPort, k.V3Ident, k.DirPort, k.RSA))
	}
	if h.role == roleUser {
		return lines(append(out, "SocksPort "+proxyAt, "UseEntryGuards 1"))
	}
	out = append(out, "SocksPort 0", "Address "+h.addr.String(), fmt.Sprintf("ORPort %v IPv4Only", netip.AddrPortFrom(h.addr, orPort)), "AssumeReachable 1",
		"ContactInfo simulated", "__DisablePredictedCircuits 1", "UseEntryGuards 0", "ServerDNSDetectHijacking 0", "ServerDNSTestAddresses", "ServerDNSAllowBrokenConfig 1")
	if h.role == experiment.RoleExit {
		out = append(out, "ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ExitPolicyRejectLocalInterfaces 0")
	} else {
		out = append(out, "ExitRelay 0", "ExitPolicy reject *:*")
	}
	if h.role == experiment.RoleAuthority {
		s := func(d time.Duration) int { return int(d / time.Second) }
		out = append(out, "AuthoritativeDirectory 1", "V3AuthoritativeDirectory 1", fmt.Sprintf("DirPort %v IPv4Only", netip.AddrPortFrom(h.addr, dirPort)),
			fmt.Sprint("TestingV3AuthInitialVotingInterval ", s(firstRound)), fmt.Sprint("TestingV3AuthInitialVoteDelay ", s(firstDelay)),
			fmt.Sprint("TestingV3AuthInitialDistDelay ", s(firstDelay)), fmt.Sprint("V3AuthVotingInterval ", s(rounds)),
			fmt.Sprint("V3AuthVoteDelay ", s(roundDelay)), fmt.Sprint("V3AuthDistDelay ", s(roundDelay)), fmt.Sprint("V3AuthNIntervalsValid ", validFor),
			"TestingAuthDirTimeToLearnReachability 0", "TestingMinExitFlagThreshold 0", "TestingMinFastFlagThreshold 0", "TestingDirAuthVoteGuard *",
			"AuthDirVoteStableGuaranteeMinUptime 0", "AuthDirFastGuarantee 1", "TestingDirAuthVoteHSDir *", "AuthDirMaxServersPerAddr 0",
			"MinUptimeHidServDirectoryV2 0", "AuthDirTestReachability 0", "V3BandwidthsFile "+up(weightsName))
	}
	return lines(out)
}

func lines(l []string) []byte { return []byte(strings.Join(l, "\n") + "\n") }
