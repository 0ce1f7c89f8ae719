package torrc

import (
	"strings"
	"sync"
)

// Today returns the name that C tor has today for an option that it knows by an older or another name, too, and
// the name itself if there is none. Case does not matter.
func Today(name string) string {
	if n, ok := otherNames()[strings.ToLower(name)]; ok {
		return n
	}
	return name
}

// Obsolete returns the name, in C tor's spelling, of an option that it takes and skips. Case does not matter.
func Obsolete(name string) (string, bool) {
	n, ok := obsoleteNames()[strings.ToLower(name)]
	return n, ok
}

// plurals are options that are named without their last letter, too.
var plurals = []string{
	"AuthDirBadDirCCs", "AuthDirBadExitCCs", "AuthDirInvalidCCs", "AuthDirMiddleOnlyCCs", "AuthDirRejectCCs", "EntryNodes", "ExcludeNodes", "FirewallPorts",
	"LongLivedPorts", "NumCPUs", "RecommendedPackages", "StrictEntryNodes", "StrictExitNodes", "StrictNodes",
}

// delays are options whose names ended in DownloadSchedule.
var delays = []string{
	"ClientBootstrapConsensusAuthority", "ClientBootstrapConsensusAuthorityOnly", "ClientBootstrapConsensusFallback", "TestingBridge", "TestingBridgeBootstrap",
	"TestingClient", "TestingClientConsensus", "TestingServer", "TestingServerConsensus",
}

var otherNames = sync.OnceValue(func() map[string]string {
	m := map[string]string{
		"l": "Log", "allowunverifiednodes": "AllowInvalidNodes", "automaphostsuffixes": "AutomapHostsSuffixes", "automaphostonresolve": "AutomapHostsOnResolve",
		"bandwidthratebytes": "BandwidthRate", "bandwidthburstbytes": "BandwidthBurst", "dirserver": "DirAuthority", "maxconn": "ConnLimit",
		"maxmemincellqueues": "MaxMemInQueues", "orbindaddress": "ORListenAddress", "dirbindaddress": "DirListenAddress", "socksbindaddress": "SocksListenAddress",
		"usehelpernodes": "UseEntryGuards", "numhelpernodes": "NumEntryGuards", "useentrynodes": "UseEntryGuards", "numentrynodes": "NumEntryGuards",
		"resolvconf": "ServerDNSResolvConfFile", "searchdomains": "ServerDNSSearchDomains", "serverdnsallowbrokenresolvconf": "ServerDNSAllowBrokenConfig",
		"prefertunnelleddirconns": "PreferTunneledDirConns", "bridgeauthoritativedirectory": "BridgeAuthoritativeDir",
		"virtualaddrnetwork": "VirtualAddrNetworkIPv4", "sockssocketsgroupwritable": "UnixSocksGroupWritable", "_hslayer2nodes": "HSLayer2Nodes", "_hslayer3nodes": "HSLayer3Nodes",
	}
	for _, n := range plurals {
		m[strings.ToLower(n[:len(n)-1])] = n
	}
	for _, n := range delays {
		m[strings.ToLower(n)+"downloadschedule"] = n + "DownloadInitialDelay"
	}
	return m
})

var obsoleteNames = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, n := range obsolete {
		m[strings.ToLower(n)] = n
	}
	return m
})

// obsolete are the options that C tor 0.4.9 takes and skips, so that old configurations go on to work.
var obsolete = []string{
	"__UseFilteringSSLBufferevents", "AllowDotExit", "AllowInvalidNodes", "AllowSingleHopCircuits", "AllowSingleHopExits", "AlternateHSAuthority",
	"AndroidIdentityTag", "AuthDirBadDir", "AuthDirBadDirCCs", "AuthDirListBadDirs", "AuthDirMaxServersPerAuthAddr", "AuthDirRejectUnlisted",
	"CircuitIdleTimeout", "ClientAutoIPv6ORPort", "ClientBootstrapConsensusAuthorityOnlyMaxDownloadTries", "ClientBootstrapConsensusMaxDownloadTries",
	"CloseHSClientCircuitsImmediatelyOnTimeout", "CloseHSServiceRendCircuitsImmediatelyOnTimeout", "ControlListenAddress", "DirListenAddress",
	"DisableIOCP", "DisableV2DirectoryInfo_", "DNSListenAddress", "DynamicDHGroups", "ExcludeSingleHopRelays", "FallbackNetworkstatusFile",
	"FastFirstHopPK", "FetchV2Networkstatus", "Group", "HiddenServiceAuthorizeClient", "HidServAuth", "HidServDirectoryV2", "MaxOnionsPending",
	"NamingAuthoritativeDirectory", "NATDListenAddress", "OptimisticData", "ORListenAddress", "PathBiasDisableRate", "PathBiasMultFactor",
	"PathBiasScaleFactor", "PathBiasUseCloseCounts", "PortForwarding", "PortForwardingHelper", "PredictedPortsRelevanceTime", "PreferTunneledDirConns",
	"RecommendedPackages", "RunTesting", "SchedulerHighWaterMark__", "SchedulerLowWaterMark__", "SchedulerMaxFlushCells__", "SocksListenAddress",
	"StrictEntryNodes", "StrictExitNodes", "Support022HiddenServices", "TestingCertMaxDownloadTries", "TestingConsensusMaxDownloadTries",
	"TestingDescriptorMaxDownloadTries", "TestingEnableTbEmptyEvent", "TestingEstimatedDescriptorPropagationTime", "TestingMicrodescMaxDownloadTries",
	"TLSECGroup", "Tor2webMode", "Tor2webRendezvousPoints", "TransListenAddress", "TunnelDirConns", "UseEntryGuardsAsDirGuards",
	"UseFilteringSSLBufferevents", "UseNTorHandshake", "UserspaceIOCPBuffers", "V1AuthoritativeDirectory", "V2AuthoritativeDirectory",
	"VoteOnHidServDirectoriesV2", "WarnUnsafeSocks",
}
