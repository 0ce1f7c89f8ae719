package torrc

import (
	"strings"
	"sync"
)

// Role is a program of Chive's that a torrc may describe.
type Role uint8

// The roles, as bits.
const (
	Proxy Role = 1 << iota
	Relay
	Authority
	Onion // a table [[onion]] of a proxy's file

	node = Proxy | Relay | Authority
)

// Option says what becomes of an option of C tor.
type Option struct {
	Name string
	Role Role   // which programs have it, if Key is set
	Key  string // the option there
	// Same is the value that says what Chive always does; it needs no option.
	Same string
	// Why says how the option here differs, or why there is none.
	Why string

	read func(value string) (values []string, note string, err error) // nil: the value as it is
}

// Options has every option of tor(1), by groups.
func Options(yield func(*Option) bool) {
	for _, t := range [][]Option{translated, fixed} {
		for i := range t {
			if !yield(&t[i]) {
				return
			}
		}
	}
	for _, g := range absent {
		for _, name := range g.names {
			if !yield(&Option{Name: name, Why: g.why}) {
				return
			}
		}
	}
}

// byName has the options by their names in small letters: C tor ignores case.
var byName = sync.OnceValue(func() map[string]*Option {
	m := map[string]*Option{}
	for o := range Options {
		m[strings.ToLower(o.Name)] = o
	}
	return m
})

// Find returns what becomes of an option of C tor, by any of its names, and nil if that has none of this name.
func Find(name string) *Option { return byName()[strings.ToLower(Today(name))] }

// Is reports whether a text is probably a torrc: its first line is an option of C tor
// without an equals sign.
func Is(text []byte) bool {
	for _, l := range split(Source{Text: text}) {
		return Find(l.Key) != nil && !strings.HasPrefix(l.Value, "=")
	}
	return false
}

// translated are the options that Chive has too.
var translated = []Option{
	{Name: "DataDirectory", Role: node, Key: "data-dir", Why: "a relay's and an authority's keys in `keys` below it have the same form"},
	{Name: "KeyDirectory", Role: Relay, Key: "key-dir"},
	{Name: "Log", Role: node, Key: "log-level", read: logLevel, Why: "`Log notice file FILE` sets `log-file` too; otherwise to standard error, which the system's journal keeps"},
	{Name: "MetricsPort", Role: node, Key: "metrics", read: metricsPort},
	{Name: "MaxMemInQueues", Role: node, Key: "max-memory", read: byteCount, Why: "counts all that peers make the node hold"},
	{Name: "Sandbox", Role: node, Key: "sandbox", read: sandbox, Why: "`auto` uses Landlock where the kernel has it"},

	{Name: "SocksPort", Role: Proxy, Key: "socks", read: socksPort, Why: "with its flags, except `CacheDNS`, `UseDNSCache` and their like (a client keeps no addresses of names) and `PreferIPv6Automap` (a SOCKS lookup of a name that is mapped gets an IPv4 address); what a circuit may carry together is decided by its first stream, so ports of one `SessionGroup` share circuits if they have the same flags of isolation"},
	{Name: "HTTPTunnelPort", Role: Proxy, Key: "http", read: httpPort, Why: "flags as those of `SocksPort`"},
	{Name: "DNSPort", Role: Proxy, Key: "dns", read: dnsPort, Why: "flags: those of isolation, and `SessionGroup`"},
	{Name: "TransPort", Role: Proxy, Key: "trans", read: transPort, Why: "Linux only; flags as those of `DNSPort`, `IPv4Traffic` and `IPv6Traffic`"},
	{Name: "TransProxyType", Role: Proxy, Key: "trans-proxy-type", read: transType, Why: "`default` is `redirect`; ipfw and pf-divert are not there"},
	{Name: "AutomapHostsOnResolve", Role: Proxy, Key: "automap-hosts-on-resolve", read: yesNo, Why: "connections of all ports to such an address go to its name; a SOCKS lookup gets an IPv4 address"},
	{Name: "AutomapHostsSuffixes", Role: Proxy, Key: "automap-hosts-suffixes", read: suffixes, Why: "without `.exit`: names that choose an exit are refused"},
	{Name: "VirtualAddrNetworkIPv4", Role: Proxy, Key: "virtual-addr-network-ipv4"},
	{Name: "VirtualAddrNetworkIPv6", Role: Proxy, Key: "virtual-addr-network-ipv6", Why: "the default is `fd15:159f:ab53::/48`: programs cannot connect to addresses of C tor's, `[fe80::]/10`, without the name of an interface"},
	{Name: "SafeSocks", Role: Proxy, Key: "safe-socks", read: yesNo},
	{Name: "TestSocks", Role: Proxy, Key: "test-socks", read: yesNo},
	{Name: "EntryNodes", Role: Proxy, Key: "entry-nodes", read: policy},
	{Name: "MiddleNodes", Role: Proxy, Key: "middle-nodes", read: policy},
	{Name: "ExitNodes", Role: Proxy, Key: "exit-nodes", read: policy},
	{Name: "ExcludeNodes", Role: Proxy, Key: "exclude-nodes", read: policy},
	{Name: "ExcludeExitNodes", Role: Proxy, Key: "exclude-exit-nodes", read: policy},
	{Name: "NodeFamily", Role: Proxy, Key: "node-family", read: oneList, Why: "a line for each family; as in C tor, no family counts on circuits with vanguards"},
	{Name: "GeoIPFile", Role: Proxy, Key: "geoip-file", Why: "read only if a list of relays names a country"},
	{Name: "GeoIPv6File", Role: Proxy, Key: "geoip6-file", Why: "as GeoIPFile"},
	{Name: "GeoIPExcludeUnknown", Role: Proxy, Key: "geoip-exclude-unknown", read: onOff},
	{Name: "StrictNodes", Role: Proxy, Key: strictKey, read: yesNo, Why: "C tor's is about ExcludeNodes, which Chive always obeys; with EntryNodes, MiddleNodes or ExitNodes it is always `true`, because C tor uses no other relays in their places"},
	{Name: "NumEntryGuards", Role: Proxy, Key: "num-entry-guards"},
	{Name: "NumDirectoryGuards", Role: Proxy, Key: "num-directory-guards"},
	{Name: "Socks4Proxy", Role: Proxy, Key: proxyKey, Why: "`socks4://IP:PORT`; IPv6 addresses are not used then"},
	{Name: "Socks5Proxy", Role: Proxy, Key: proxyKey, Why: "`socks5://USER:PASSWORD@IP:PORT`"},
	{Name: "Socks5ProxyUsername", Role: Proxy, Key: proxyKey, Why: "in the URL"},
	{Name: "Socks5ProxyPassword", Role: Proxy, Key: proxyKey, Why: "in the URL"},
	{Name: "HTTPSProxy", Role: Proxy, Key: proxyKey, Why: "`http://USER:PASSWORD@IP:PORT`: a proxy that knows CONNECT"},
	{Name: "HTTPSProxyAuthenticator", Role: Proxy, Key: proxyKey, Why: "in the URL"},
	{Name: "ReachableAddresses", Role: Proxy, Key: reachKey},
	{Name: "ReachableORAddresses", Role: Proxy, Key: reachKey, Why: "counts before ReachableAddresses"},
	{Name: "FascistFirewall", Role: Proxy, Key: reachKey, Why: "`[\"*:80\", \"*:443\"]`"},
	{Name: "FirewallPorts", Role: Proxy, Key: reachKey, Why: "a rule `*:PORT` for each port"},
	{Name: "ClientUseIPv4", Role: Proxy, Key: reachKey, Why: "`0` is the rule `reject *4:*`"},
	{Name: "ClientUseIPv6", Role: Proxy, Key: reachKey, Why: "`0` is the rule `reject *6:*`, for bridges too"},
	{Name: "OutboundBindAddress", Role: Proxy | Relay, Key: "outbound-bind-address", read: source, Why: "`chive authority` has none"},
	{Name: "OutboundBindAddressOR", Role: Proxy | Relay, Key: "outbound-bind-address-or", read: source, Why: "as `OutboundBindAddress`"},
	{Name: "OutboundBindAddressExit", Role: Relay, Key: "outbound-bind-address-exit", read: source},
	{Name: "OutboundBindAddressPT", Role: Proxy | Relay, Key: "outbound-bind-address-pt", read: source},
	{Name: "MapAddress", Role: Proxy, Key: "map-address", Why: "names ending in .exit are refused"},
	{Name: "Bridge", Role: Proxy, Key: "bridge", Why: "every bridge line counts: `UseBridges` is not needed"},
	{Name: "ClientTransportPlugin", Role: Proxy, Key: "transport-plugin"},
	{Name: "MaxCircuitDirtiness", Role: Proxy, Key: "max-circuit-dirtiness", read: interval},
	{Name: "MaxClientCircuitsPending", Role: Proxy, Key: "max-client-circuits-pending"},
	{Name: "CircuitBuildTimeout", Role: Proxy, Key: "circuit-build-timeout", read: buildTimeout, Why: "turns learning off, as `LearnCircuitBuildTimeout 0` does"},
	{Name: "CircuitStreamTimeout", Role: Proxy, Key: "stream-timeout", read: interval},
	{Name: "ClientRejectInternalAddresses", Role: Proxy, Key: "client-reject-internal-addresses", read: onOff},
	{Name: "ClientDNSRejectInternalAddresses", Role: Proxy, Key: "client-dns-reject-internal-addresses", read: onOff},
	{Name: "ClientOnionAuthDir", Role: Proxy, Key: "client-onion-auth-dir"},
	{Name: "ConfluxEnabled", Role: Proxy, Key: "conflux", read: onOff},
	{Name: "ConnectionPadding", Role: Proxy, Key: "padding", read: connectionPadding},
	{Name: "ReducedConnectionPadding", Role: Proxy, Key: "padding", read: reducedPadding},
	{Name: "CircuitPadding", Role: Proxy, Key: "circuit-padding", read: connectionPadding},
	{Name: "ReducedCircuitPadding", Role: Proxy, Key: "circuit-padding", read: reducedPadding},
	{Name: "VanguardsLiteEnabled", Role: Proxy, Key: "vanguards", read: vanguardsLite},

	{Name: "ORPort", Role: Relay | Authority, Key: "orport", read: orPort},
	{Name: "DirPort", Role: Relay | Authority, Key: "dirport", read: dirPort},
	{Name: "Nickname", Role: Relay | Authority, Key: "nickname"},
	{Name: "ContactInfo", Role: Relay | Authority, Key: "contact"},
	{Name: "Address", Role: Relay, Key: "address", read: address, Why: "with the port that others use: `IP:PORT`, unless it is the ORPort's; a name is looked up at the start; without it, the machine's only public IPv4 address"},
	{Name: "OfflineMasterKey", Role: Relay, Key: "offline-master-key", read: yesNo},
	{Name: "MyFamily", Role: Relay, Key: "family", read: names},
	{Name: "FamilyId", Role: Relay, Key: "family-id"},
	{Name: "BridgeRelay", Role: Relay, Key: "bridge", read: yesNo},
	{Name: "ServerTransportPlugin", Role: Relay, Key: "transport-plugin"},
	{Name: "ServerTransportListenAddr", Role: Relay, Key: "transport-listen"},
	{Name: "ServerTransportOptions", Role: Relay, Key: "transport-options"},
	{Name: "ExitPolicy", Role: Relay, Key: "exit-policy", read: policy},
	{Name: "ReducedExitPolicy", Role: Relay, Key: "reduced-exit-policy", read: yesNo},
	{Name: "IPv6Exit", Role: Relay, Key: "ipv6-exit", read: yesNo},
	{Name: "ExitPolicyRejectPrivate", Role: Relay, Key: "exit-private", read: noYes, Why: "the other way round: `exit-private = true` lets streams out to private networks"},
	{Name: "BandwidthRate", Role: Relay, Key: "bandwidth-rate", read: byteCount, Why: "an exit's connections to its targets do not count"},
	{Name: "BandwidthBurst", Role: Relay, Key: "bandwidth-burst", read: byteCount, Why: "as `BandwidthRate`"},
	{Name: "RelayBandwidthRate", Role: Relay, Key: "bandwidth-rate", read: byteCount, Why: "a relay of Chive's carries no traffic of its own, so one limit is enough"},
	{Name: "RelayBandwidthBurst", Role: Relay, Key: "bandwidth-burst", read: byteCount, Why: "as RelayBandwidthRate"},
	{Name: "AccountingMax", Role: Relay, Key: "accounting-max", read: byteCount, Why: "counts what the links carry and, of exits, their targets' connections, without TLS, TCP and IP"},
	{Name: "AccountingRule", Role: Relay, Key: "accounting-rule", read: smallWord},
	{Name: "AccountingStart", Role: Relay, Key: "accounting-start"},
	{Name: "MaxAdvertisedBandwidth", Role: Relay, Key: "max-advertised-bandwidth", read: byteCount},
	{Name: "AssumeReachable", Role: Relay | Authority, Key: "assume-reachable", read: yesNo},
	{Name: "DirCache", Role: Relay, Key: "no-dir-cache", read: noYes, Why: "the other way round"},
	{Name: "DownloadExtraInfo", Role: Relay, Key: "cache-extra-info", read: yesNo},
	{Name: "ShutdownWaitLength", Role: Relay, Key: "shutdown-wait", read: interval},

	{Name: "V3BandwidthsFile", Role: Authority, Key: "bandwidth-file"},
	{Name: "V3AuthVotingInterval", Role: Authority, Key: "voting-interval", read: interval},
	{Name: "V3AuthVoteDelay", Role: Authority, Key: "vote-delay", read: interval},
	{Name: "V3AuthDistDelay", Role: Authority, Key: "dist-delay", read: interval},
	{Name: "V3AuthNIntervalsValid", Role: Authority, Key: "intervals-valid"},
	{Name: "TestingV3AuthInitialVotingInterval", Role: Authority, Key: "initial-voting-interval", read: interval},
	{Name: "TestingV3AuthInitialVoteDelay", Role: Authority, Key: "initial-vote-delay", read: interval},
	{Name: "TestingV3AuthInitialDistDelay", Role: Authority, Key: "initial-dist-delay", read: interval},
	{Name: "ConsensusParams", Role: Authority, Key: "param", read: words},
	{Name: "RecommendedClientVersions", Role: Authority, Key: "client-versions", read: names},
	{Name: "RecommendedServerVersions", Role: Authority, Key: "server-versions", read: names},
	{Name: "AuthDirHasIPv6Connectivity", Role: Authority, Key: "ipv6", read: yesNo},
	{Name: "AuthDirSupport048Clients", Role: Authority, Key: "support-048-clients", read: yesNo},

	{Name: "HiddenServiceDir", Role: Onion, Key: "key-dir", Why: "begins a table `[[onion]]`"},
	{Name: "HiddenServicePort", Role: Onion, Key: "port", read: onionPort, Why: "`80 127.0.0.1:8080` is `80=127.0.0.1:8080`; several lines of one port are several targets"},
	{Name: "HiddenServiceNumIntroductionPoints", Role: Onion, Key: "introduction-points", Why: "1 to 20; C tor also allows 0"},
	{Name: "HiddenServiceMaxStreams", Role: Onion, Key: "max-streams", Why: "C tor ignores connections over it, and Chive ends them"},
	{Name: "HiddenServiceMaxStreamsCloseCircuit", Role: Onion, Key: "max-streams-close-circuit", read: yesNo},
	{Name: "HiddenServiceAllowUnknownPorts", Role: Onion, Key: "allow-unknown-ports", read: yesNo},
	{Name: "HiddenServiceExportCircuitID", Role: Onion, Key: "export-circuit-id"},
	{Name: "HiddenServiceEnableIntroDoSDefense", Role: Onion, Key: "intro-dos-defense", read: yesNo},
	{Name: "HiddenServiceEnableIntroDoSRatePerSec", Role: Onion, Key: "intro-dos-rate"},
	{Name: "HiddenServiceEnableIntroDoSBurstPerSec", Role: Onion, Key: "intro-dos-burst"},
	{Name: "HiddenServicePoWDefensesEnabled", Role: Onion, Key: "pow-defense", read: yesNo},
	{Name: "HiddenServicePoWQueueRate", Role: Onion, Key: "pow-queue-rate", Why: "1 or more; C tor also allows 0, which is no limit"},
	{Name: "HiddenServicePoWQueueBurst", Role: Onion, Key: "pow-queue-burst", Why: "as `HiddenServicePoWQueueRate`"},
	{Name: "HiddenServiceSingleHopMode", Role: Onion, Key: singleOnion, Why: "`host-can-be-found` in every table `[[onion]]`, if `HiddenServiceNonAnonymousMode` is 1 too"},
	{Name: "HiddenServiceNonAnonymousMode", Role: Onion, Key: singleOnion, Why: "as `HiddenServiceSingleHopMode`"},
}

// fixed are the options whose usual value is what Chive always does.
var fixed = []Option{
	{Name: "UseBridges", Same: "1", Why: "bridges are used if there is a `bridge` line"},
	{Name: "ExitRelay", Same: "1", Why: "a relay is an exit if it has an `exit-policy`"},
	{Name: "UseEntryGuards", Same: "1", Why: "without guards, some circuit soon begins and ends at an attacker's relays"},
	{Name: "UseMicrodescriptors", Same: "1", Why: "clients use microdescriptors"},
	{Name: "UseDefaultFallbackDirs", Same: "1", Why: "the network file has the fallbacks"},
	{Name: "LearnCircuitBuildTimeout", Same: "1", Why: "learned, unless `circuit-build-timeout` is set"},
	{Name: "ClientOnly", Same: "1", Why: "a proxy never is a relay"},
	{Name: "ClientPreferIPv6ORPort", Same: "auto", Why: "a relay's IPv4 address, unless this machine has none; with `--appearance fast`, and of a bridge, whichever answers first"},
	{Name: "SafeLogging", Same: "1", Why: "the log has no destination, no address of a client or relay, and of fingerprints the first digits"},
	{Name: "RunAsDaemon", Same: "0", Why: "run it under systemd, or another supervisor"},
	{Name: "AvoidDiskWrites", Same: "1", Why: "little is written, and rarely"},
	{Name: "HardwareAccel", Same: "1", Why: "the CPU's instructions are used where it has them"},
	{Name: "NumCPUs", Same: "0", Why: "GOMAXPROCS in the environment limits the processors"},
	{Name: "EnforceDistinctSubnets", Same: "1", Why: "a network file's `enforce_distinct_subnets`"},
	{Name: "ExtORPort", Same: "auto", Why: "a bridge with transports has one, at a port of loopback that the system chooses"},
	{Name: "PublishServerDescriptor", Same: "1", Why: "a relay is published, unless it is 0 (`no-publish`); a bridge is not"},
	{Name: "BridgeDistribution", Same: "none", Why: "bridges are not published to a bridge authority"},
	{Name: "ExtendByEd25519ID", Same: "1", Why: "circuits extend by both identities"},
	{Name: "HiddenServiceVersion", Same: "3", Why: "version 3 is the only one"},
	{Name: "HiddenServiceDirGroupReadable", Same: "0", Why: "only the owner has access to keys"},
	{Name: "DataDirectoryGroupReadable", Same: "0", Why: "only the owner has access"},
	{Name: "KeyDirectoryGroupReadable", Same: "0", Why: "only the owner has access"},
	{Name: "CacheDirectoryGroupReadable", Same: "0", Why: "only the owner has access"},
	{Name: "PublishHidServDescriptors", Same: "1", Why: "services publish their descriptors"},
	{Name: "FetchHidServDescriptors", Same: "1", Why: "the descriptor of a service is fetched when a program connects to it"},
	{Name: "FetchServerDescriptors", Same: "1", Why: "the descriptors of all relays of the consensus are fetched"},
	{Name: "FetchDirInfoEarly", Same: "0", Why: "relays fetch early, clients do not"},
	{Name: "FetchDirInfoExtraEarly", Same: "0", Why: "relays fetch early, clients do not"},
	{Name: "FetchUselessDescriptors", Same: "0", Why: "only what is used is fetched"},
	{Name: "DisableNetwork", Same: "0", Why: "a program that must not use the network is not started"},
	{Name: "AuthoritativeDirectory", Same: "1", Why: "an authority is a program of its own: `chive authority`"},
	{Name: "V3AuthoritativeDirectory", Same: "1", Why: "an authority is a program of its own: `chive authority`"},
	{Name: "VersioningAuthoritativeDirectory", Same: "1", Why: "an authority votes on versions if it is given some"},
	{Name: "AuthDirSharedRandomness", Same: "1", Why: "authorities take part in shared randomness"},
	{Name: "AuthDirTestReachability", Same: "1", Why: "`assume-reachable` turns the test off"},
	{Name: "AuthDirPinKeys", Same: "1", Why: "a relay's keys belong together from the first time on"},
	{Name: "AuthDirListBadExits", Same: "1", Why: "the file of `relay-list` marks bad exits"},
	{Name: "AuthDirListMiddleOnly", Same: "1", Why: "the file of `relay-list` marks relays"},
	{Name: "ExtendAllowPrivateAddresses", Same: "0", Why: "a network file says whether its relays may have private addresses"},
	{Name: "DirAllowPrivateAddresses", Same: "0", Why: "a network file says whether its relays may have private addresses"},
	{Name: "RefuseUnknownExits", Same: "1", Why: "exits serve circuits of several hops, from relays of the consensus, only"},
	{Name: "ServerDNSDetectHijacking", Same: "0", Why: "answers are not tested for hijacking"},
	{Name: "ServerDNSSearchDomains", Same: "0", Why: "names are looked up as they are"},
	{Name: "ServerDNSRandomizeCase", Same: "0", Why: "questions have random numbers and ports, and letters as they are"},
	{Name: "AssumeReachableIPv6", Same: "auto", Why: "as `assume-reachable`"},
	{Name: "AddressDisableIPv6", Same: "0", Why: "only addresses that you give are used"},
	{Name: "ExitPolicyRejectLocalInterfaces", Same: "0", Why: "the addresses of `orport` and `address` are refused; write a `reject` line of `exit-policy` for each other one of this machine"},
	{Name: "ExtraInfoStatistics", Same: "1", Why: "relays publish an extra-info document"},
	{Name: "UpdateBridgesFromAuthority", Same: "0", Why: "a bridge itself gives its descriptor"},
	{Name: "DormantTimeoutEnabled", Same: "0", Why: "an idle client builds no circuits, and keeps its directory"},
	{Name: "UnixSocksGroupWritable", Same: "0", Why: "only the owner has access to a socket's file, unless its port has the flag `GroupWritable` or `WorldWritable`"},
	{Name: "TruncateLogFile", Same: "0", Why: "lines are added to a log file"},
	{Name: "HiddenServiceOnionBalanceInstance", Same: "1", Why: "a file `ob_config` in the service's directory counts"},
	{Name: "WarnPlaintextPorts", Same: "", Why: "no warning by port"},
}

// absent are the options that Chive has not, by the reason.
var absent = []struct {
	why   string
	names []string
}{
	{"a network is described by a network file: `chive network import` makes one of such lines", []string{
		"DirAuthority", "AlternateDirAuthority", "FallbackDir", "TestingTorNetwork"}},
	{"no bridge authority", []string{"AlternateBridgeAuthority", "BridgeAuthoritativeDir", "BridgePassword"}},
	{"`chive tor` has a control port; the others have one by `control` (control-port.md), which a person has to write", []string{
		"ControlPort", "ControlPortFileGroupReadable", "ControlPortWriteToFile", "ControlSocket", "ControlSocketsGroupWritable",
		"CookieAuthentication", "CookieAuthFile", "CookieAuthFileGroupReadable", "HashedControlPassword",
		"__ControlPort", "__HashedControlSessionPassword", "__LeaveStreamsUnattached", "__OwningControllerFD", "__OwningControllerProcess",
		"__ReloadTorrcOnSIGHUP", "__DisablePredictedCircuits", "ReconfigDropsBridgeDescs"}},
	{"only REDIRECT and TPROXY of Linux are there (`trans`)", []string{"NATDPort", "__NATDPort"}},
	{"vanguards are not chosen by hand: `vanguards = \"full\"` has two layers of them, and keeps them", []string{"HSLayer2Nodes", "HSLayer3Nodes"}},
	{"for directory requests without encryption, which Chive does not make: `proxy` is for all connections", []string{"HTTPProxy", "HTTPProxyAuthenticator"}},
	{"no HAProxy protocol; `proxy` has SOCKS and HTTP CONNECT", []string{"TCPProxy"}},
	{"directories are asked through the ORPort: `reachable-addresses`", []string{"ReachableDirAddresses"}},
	{"not yet", []string{"SocksPolicy", "MetricsPortPolicy", "LongLivedPorts", "TrackHostExits", "TrackHostExitsExpire",
		"FamilyKeyDirectory", "CacheDirectory",
		"PerConnBWBurst", "PerConnBWRate", "DirPolicy", "DirPortFrontPage", "ServerDNSResolvConfFile", "ReevaluateExitPolicy",
		"PathsNeededToBuildCircuits", "SigningKeyLifetime", "ExtORPortCookieAuthFile", "ExtORPortCookieAuthFileGroupReadable"}},
	{"a third of `max-memory`", []string{"MaxHSDirCacheBytes"}},
	{"systemd does it: `User=`, `LimitNOFILE=`, `AmbientCapabilities=`", []string{"User", "KeepBindCapabilities", "ConnLimit", "DisableAllSwap", "NoExec", "DisableDebuggerAttachment"}},
	{"the supervisor knows the process and keeps its log", []string{"PidFile", "SyslogIdentityTag", "LogMessageDomains", "LogTimeGranularity", "HeartbeatPeriod", "ProtocolWarnings", "MaxUnparseableDescSizeToLog", "MainloopStats"}},
	{"the consensus sets it", []string{"CircuitPriorityHalflife", "DoSBeginDirBurst", "DoSBeginDirDefenseType", "DoSBeginDirRate", "DoSBeginDirRateEnabled", "DoSCircuitCreationBurst", "DoSCircuitCreationDefenseTimePeriod", "DoSCircuitCreationDefenseType", "DoSCircuitCreationEnabled",
		"DoSCircuitCreationMinConnections", "DoSCircuitCreationRate", "DoSConnectionConnectBurst", "DoSConnectionConnectDefenseTimePeriod", "DoSConnectionConnectRate", "DoSConnectionDefenseType",
		"DoSConnectionEnabled", "DoSConnectionMaxConcurrentCount", "DoSRefuseSingleHopClientRendezvous", "DoSStreamCreationBurst", "DoSStreamCreationDefenseType", "DoSStreamCreationEnabled",
		"DoSStreamCreationRate", "GuardLifetime", "NumPrimaryGuards", "MaxOnionQueueDelay", "UseGuardFraction", "ConfluxClientUX",
		"PathBiasCircThreshold", "PathBiasDropGuards", "PathBiasExtremeRate", "PathBiasExtremeUseRate", "PathBiasNoticeRate", "PathBiasNoticeUseRate", "PathBiasScaleThreshold",
		"PathBiasScaleUseThreshold", "PathBiasUseThreshold", "PathBiasWarnRate", "MinUptimeHidServDirectoryV2", "DirAuthorityFallbackRate"}},
	{"`chive tor` obeys it; a client of another form never rests: while it is idle it builds no circuits, and keeps its directory", []string{"DormantCanceledByStartup", "DormantClientTimeout",
		"DormantOnFirstStartup", "DormantTimeoutDisabledByIdleStreams"}},
	{"a detail of C tor's own working", []string{"AccelDir", "AccelName", "AllowNonRFC953Hostnames", "ConstrainedSockets", "ConstrainedSockSize", "KeepalivePeriod", "KISTSchedRunInterval", "KISTSockBufSizeFactor", "Schedulers",
		"NewCircuitPeriod", "CircuitsAvailableTimeout", "CompiledProofOfWorkHash", "DisableOOSCheck", "MaxConsensusAgeForDiffs", "RephistTrackTime", "SocksTimeout", "SSLKeyLifetime", "TokenBucketRefillInterval", "CountPrivateBandwidth",
		"ClientBootstrapConsensusAuthorityDownloadInitialDelay", "ClientBootstrapConsensusAuthorityOnlyDownloadInitialDelay", "ClientBootstrapConsensusFallbackDownloadInitialDelay",
		"ClientBootstrapConsensusMaxInProgressTries", "ClientPreferIPv6DirPort",
		"RejectPlaintextPorts", "ServerDNSAllowBrokenConfig", "ServerDNSAllowNonRFC953Hostnames", "ServerDNSTestAddresses",
		"__AllDirActionsPrivate", "__AlwaysCongestionControl", "__DirPort", "__DisableSignalHandlers", "__DNSPort", "__ExtORPort", "__HTTPTunnelPort", "__MetricsPort", "__ORPort", "__SbwsExit", "__SocksPort", "__TransPort"}},
	{"these statistics are not made", []string{"BridgeRecordUsageByCountry", "CellStatistics", "ConnDirectionStatistics", "DirReqStatistics", "EntryStatistics", "ExitPortStatistics", "HiddenServiceStatistics",
		"OverloadStatistics", "PaddingStatistics"}},
	{"an authority's rules are built in; the file of `relay-list` names exceptions", []string{"AuthDirBadExit", "AuthDirBadExitCCs", "AuthDirFastGuarantee", "AuthDirGuardBWGuarantee", "AuthDirInvalid", "AuthDirInvalidCCs",
		"AuthDirMaxServersPerAddr", "AuthDirMiddleOnly", "AuthDirMiddleOnlyCCs", "AuthDirReject", "AuthDirRejectCCs", "AuthDirRejectRequestsUnderLoad", "AuthDirTestEd25519LinkKeys", "AuthDirVoteGuard",
		"AuthDirVoteGuardBwThresholdFraction", "AuthDirVoteGuardGuaranteeTimeKnown", "AuthDirVoteGuardGuaranteeWFU", "AuthDirVoteStableGuaranteeMinUptime", "AuthDirVoteStableGuaranteeMTBF",
		"GuardfractionFile", "MinimalAcceptedServerVersion", "MinMeasuredBWsForAuthToIgnoreAdvertised", "RecommendedVersions", "V3AuthUseLegacyKey"}},
	{"only for C tor's own tests", []string{"TestingAuthDirTimeToLearnReachability", "TestingAuthKeyLifetime", "TestingAuthKeySlop", "TestingBridgeBootstrapDownloadInitialDelay", "TestingBridgeDownloadInitialDelay",
		"TestingClientConsensusDownloadInitialDelay", "TestingClientDownloadInitialDelay", "TestingClientMaxIntervalWithoutRequest", "TestingDirAuthVoteExit", "TestingDirAuthVoteExitIsStrict",
		"TestingDirAuthVoteGuard", "TestingDirAuthVoteGuardIsStrict", "TestingDirAuthVoteHSDir", "TestingDirAuthVoteHSDirIsStrict", "TestingDirConnectionMaxStall", "TestingEnableCellStatsEvent",
		"TestingEnableConnBwEvent", "TestingLinkCertLifetime", "TestingLinkKeySlop", "TestingMinExitFlagThreshold", "TestingMinFastFlagThreshold", "TestingMinTimeToReportBandwidth",
		"TestingServerConsensusDownloadInitialDelay", "TestingServerDownloadInitialDelay", "TestingSigningKeySlop", "TestingV3AuthVotingStartOffset"}},
}
