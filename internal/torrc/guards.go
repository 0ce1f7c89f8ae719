package torrc

import (
	"slices"
	"strings"
)

// guards are the options that limit or protect something: without them, this machine or its
// users are less safe than before.
var guards = []string{
	"AccountingMax", "AccountingRule", "AccountingStart", "BandwidthRate", "BandwidthBurst", "RelayBandwidthRate", "RelayBandwidthBurst", "PerConnBWRate", "PerConnBWBurst",
	"MaxMemInQueues", "MaxHSDirCacheBytes", "MaxClientCircuitsPending", "ConnLimit",
	"OutboundBindAddress", "OutboundBindAddressExit", "OutboundBindAddressOR", "OutboundBindAddressPT",
	"SocksPolicy", "MetricsPortPolicy", "DirPolicy", "ExitPolicy", "ExitPolicyRejectPrivate", "ExitPolicyRejectLocalInterfaces", "ReducedExitPolicy", "ReevaluateExitPolicy",
	"ReachableAddresses", "ReachableORAddresses", "ReachableDirAddresses", "TCPProxy", "HTTPSProxy", "Socks4Proxy", "Socks5Proxy", "UseBridges", "DisableNetwork",
	"EntryNodes", "MiddleNodes", "ExitNodes", "ExcludeNodes", "ExcludeExitNodes", "NodeFamily", "StrictNodes", "HSLayer2Nodes", "HSLayer3Nodes", "UseEntryGuards",
	"SafeSocks", "SafeLogging", "ClientRejectInternalAddresses", "ClientDNSRejectInternalAddresses", "RejectPlaintextPorts", "ServerDNSResolvConfFile",
	"Sandbox", "User", "NoExec", "DisableAllSwap", "DisableDebuggerAttachment", "OfflineMasterKey", "KeyDirectory",
	"HiddenServiceMaxStreams", "HiddenServiceMaxStreamsCloseCircuit", "HiddenServiceEnableIntroDoSDefense", "HiddenServicePoWDefensesEnabled",
	"AuthDirBadExit", "AuthDirBadExitCCs", "AuthDirInvalid", "AuthDirInvalidCCs", "AuthDirMiddleOnly", "AuthDirMiddleOnlyCCs", "AuthDirReject", "AuthDirRejectCCs", "AuthDirMaxServersPerAddr",
}

// Guards reports whether a line's option limits or protects something. Those of C tor's
// defences against floods do.
func Guards(l Line) bool {
	key := strings.ToLower(strings.TrimLeft(l.Key, "/"))
	return strings.HasPrefix(key, "dos") || slices.ContainsFunc(guards, func(name string) bool { return strings.EqualFold(name, key) })
}
