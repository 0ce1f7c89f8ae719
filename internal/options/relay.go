package options

import "github.com/chivenet/chive/internal/hibernate"

// Relay is the options of a relay, an exit or a bridge: the fields of its Config.
var Relay = Table{
	{"Files", []Option{
		{Key: "data-dir", Field: "DataDir", Zero: "$XDG_STATE_HOME/chive/relay", Help: "`DIR` for the keys and the directory cache; keep a copy of its keys"},
		{Key: "key-dir", Field: "KeyDir", Zero: "keys in the data directory", Help: "`DIR` for the keys alone, which no other relay may use"},
		{Key: "offline-master-key", Field: "OfflineMasterKey", Help: "the master key is kept elsewhere ('chive keys relay'): neither make nor read it"},
	}},
	{"Identity of the relay", []Option{
		{Key: "nickname", Field: "Nickname", Default: "Unnamed", Help: "`NAME` of the relay: 1 to 19 letters and digits"},
		{Key: "contact", Field: "Contact", Help: "`TEXT` by which others reach you, such as an address of mail; everybody can read it"},
		{Key: "family", Field: "Family", Help: "`FINGERPRINTS` of your other relays: no circuit then uses two of them"},
		{Key: "family-file", Field: "FamilyFile", Help: "`FILE` with more of them, between white space and commas"},
		{Key: "family-id", Field: "FamilyIDs", Help: "`IDENTITIES` of your families, whose keys ('chive keys family') are with the relay's; * for every key there"},
	}},
	{"Ports and addresses", []Option{
		{Key: "orport", Field: "ORPort", Help: "`ADDR` to listen at, PORT or IP:PORT, which clients and relays must reach"},
		{Key: "address", Field: "Address", Zero: "the ORPort's, or the only public IPv4 address of this machine", Help: "`ADDR` that others reach the ORPort at, when it is another one: IP:PORT, or IP with the ORPort's port, or a name in the place of the IP, which is looked up at the start"},
		outboundBind("outbound-bind-address", "OutboundBindAddress", "the system's choice", "connections to others come from"),
		outboundBind("outbound-bind-address-or", "OutboundBindAddressOR", "those of outbound-bind-address, or else of orport", "links to relays and authorities come from"),
		outboundBind("outbound-bind-address-exit", "OutboundBindAddressExit", asOutbound, "an exit's connections to targets come from"),
		outboundBind("outbound-bind-address-pt", "OutboundBindAddressPT", asOutbound, "pluggable transports are asked to connect from"),
		{Key: "dirport", Field: "DirPort", Zero: "only through the ORPort", Help: "`ADDR` to serve the directory at over plain HTTP too, IP:PORT"},
		{Key: "no-dir-cache", Field: "NoDirCache", Help: "do not serve the directory to others"},
		{Key: "cache-extra-info", Field: "CacheExtraInfo", Help: "keep other relays' extra-info documents, and serve them"},
		{Key: "assume-reachable", Field: "AssumeReachable", Help: "publish the relay without a test of its ORPort"},
		{Key: "no-publish", Field: "NoPublish", Help: "do not upload the relay's descriptor to the authorities: no list then has it"},
	}},
	{"Exit", []Option{
		{Key: "exit-policy", Field: "ExitPolicy", Zero: "the relay is no exit", Help: "`LINES` of what may leave here, such as 'accept *:443,reject *:*', or 'default'"},
		{Key: "reduced-exit-policy", Field: "ReducedExitPolicy", Help: "accept the ports of some 90 well-known services, and no others, where the lines of the exit policy do not decide; it makes an exit without lines too"},
		{Key: "exit-private", Field: "ExitPrivate", Help: "let streams out to private networks, as far as the exit policy does"},
		{Key: "ipv6-exit", Field: "IPv6Exit", Help: "let streams out to IPv6 addresses too"},
		{Key: "nameserver", Field: "Nameservers", Zero: "those of the system", Help: "`ADDR` of a name server, IP:PORT"},
	}},
	{"Bridge", []Option{
		{Key: "bridge", Field: "Bridge", Help: "be a bridge: a relay that is in no list; standard output has a line \"bridge LINE\" for each transport, or for the ORPort if there is none"},
		{Key: "transport-plugin", Field: "ServerTransportPlugins", Lines: true, Help: "`LINE` of the program of a transport that the bridge offers: 'obfs4 exec /usr/bin/obfs4proxy'"},
		{Key: "transport-listen", Field: "ServerTransportListen", Lines: true, Help: "`LINE` that says where a transport listens: 'obfs4 IP:PORT'; one for chive or fte is enough to offer these, without a program"},
		{Key: "transport-options", Field: "ServerTransportOptions", Lines: true, Help: "`LINE` of what a transport is told: 'obfs4 KEY=VALUE ...'"},
	}},
	{"Limits", []Option{
		{Key: "bandwidth-rate", Field: "BandwidthRate", Zero: "no limit", Help: "`BYTES` a second that all links together may read, and as many that they may write; 75 KiB at least, for a bridge 50 KiB"},
		{Key: "bandwidth-burst", Field: "BandwidthBurst", Zero: "as much as in a second", Help: "`BYTES` that may come at once"},
		{Key: "max-advertised-bandwidth", Field: "MaxAdvertisedBandwidth", Zero: "no limit", Help: "`BYTES` a second that the relay offers to clients at most"},
		{Key: "accounting-max", Field: "AccountingMax", Zero: "no limit", Help: "`BYTES` of an interval that the relay uses at most: with the last of them it takes nothing new, then it closes its ports and links until the interval ends"},
		{Key: "accounting-rule", Field: "AccountingRule", Zero: hibernate.Max.String(), OneOf: accountingRules, Help: "which bytes count against accounting-max: `RULE` max (those read or those written, whichever are more), sum (both), in or out"},
		{Key: "accounting-start", Field: "AccountingStart", Zero: hibernate.DefaultSchedule, Each: checkSchedule, Help: "`WHEN` an interval begins, in local time: 'month DAY HH:MM', 'week DAY HH:MM' (1 is Monday) or 'day HH:MM'"},
		maxMemory("relay", "two fifths of the memory of the machine or the container, or three quarters below 8 GiB; 8 GiB at most"),
		{Key: "shutdown-wait", Field: "ShutdownWait", Zero: "30s", Help: "`TIME` that open circuits may go on after SIGTERM; a negative one is none"},
	}},
}

// accountingRules are the values of accounting-rule; an empty one is the option left out.
var accountingRules = append([]string{""}, hibernate.Rules...)

func checkSchedule(s string) error {
	_, err := hibernate.ParseSchedule(s)
	return err
}
