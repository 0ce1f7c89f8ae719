package daemon

import (
	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/socks"
)

// The options of the process itself: the fields of Common and Ports. The options
// of the nodes are in package options.

func networkTable(zero, help string) options.Table {
	return options.Table{{Title: "Files", Options: []options.Option{
		{Key: "network", Field: "NetworkFile", Zero: zero, Help: help},
	}}}
}

var (
	anyNetwork   = networkTable("the public network", "`FILE` that describes the network: its authorities and where they are")
	namedNetwork = networkTable("", "`FILE` that describes the network, and names all of its authorities; it is needed")
)

// processTable is for every process that runs until it is told to stop.
var processTable = options.Table{{Title: "Process", Options: []options.Option{
	{Key: "metrics", Field: "Metrics", Each: socks.CheckAddr, Zero: "none", Help: "`ADDR` of /metrics (for Prometheus) and /metrics.json over HTTP"},
	{Key: "metrics-host", Field: "MetricsHosts", Each: localhttp.CheckName, Zero: "none", Help: "`NAME` of a host by which metrics may be asked for, beside localhost and IP addresses"},
	{Key: "profiles", Field: "Profiles", Each: checkProfiles, Zero: "none", Help: "`ADDR` of profiles for go tool pprof over HTTP: an address of loopback or unix:PATH"},
	{Key: "sandbox", Field: "Sandbox", Default: sandboxOff, OneOf: []string{sandboxOff, sandboxAuto, sandboxRequire},
		Help: "let the process use only the files that it needs, by Landlock: `MODE` off, auto (where the kernel can) or require"},
}}}

var logTable = options.Table{{Title: "Process", Options: []options.Option{
	{Key: "log-level", Field: "LogLevel", Default: "info", OneOf: options.Levels, Help: "lowest `LEVEL` to log: debug, info, warn or error"},
	{Key: "log-file", Field: "LogFile", Zero: "standard error", Help: "`FILE` that the log goes to; a new one is for its owner only (mode 0600); SIGHUP opens it again, after it was renamed"},
	{Key: "log-format", Field: "LogFormat", Default: logline.Auto, OneOf: logline.Formats, Help: "`FORMAT` of the log: auto (lines for people on a terminal, else text), text or json"},
}}}

// listeners has the ports of a proxy.
var listeners = options.Table{{Title: "Ports", Options: []options.Option{
	{Key: "socks", Field: "SOCKS", Default: DefaultSOCKS, Each: portOf(socks.SOCKSPort), Help: "`ADDR` of a SOCKS 4, 4a and 5 proxy: a port, IP:PORT or unix:PATH, and then C tor's flags, such as '9150 IsolateDestAddr'; \"\" for none"},
	{Key: "http", Field: "HTTP", Each: portOf(socks.HTTPPort), Help: "`ADDR` of an HTTP CONNECT proxy, and flags"},
	{Key: "dns", Field: "DNS", Each: portOf(socks.DNSPort), Help: "`ADDR` of a DNS port, UDP and TCP, and flags"},
	{Key: "trans", Field: "Trans", Each: portOf(socks.TransPort), Help: "`ADDR` of a transparent port, and flags: the kernel sends it connections that programs make to other addresses; Linux only"},
	{Key: "trans-proxy-type", Field: "TransProxyType", Default: transRedirect, OneOf: []string{transRedirect, transTProxy}, Help: "how connections come to transparent ports: `TYPE` redirect (REDIRECT) or tproxy (TPROXY, which needs CAP_NET_ADMIN)"},
	{Key: "automap-hosts-on-resolve", Field: "AutomapHostsOnResolve", Help: "when a program looks up a name that ends in one of automap-hosts-suffixes, answer with an address of a virtual network; connections to it go to the name"},
	{Key: "automap-hosts-suffixes", Field: "AutomapHostsSuffixes", Default: ".onion", Each: socks.CheckSuffix, Help: "`SUFFIX` of names that get addresses, such as .onion; \".\" for all names"},
	{Key: "virtual-addr-network-ipv4", Field: "VirtualAddrNetworkIPv4", Default: "127.192.0.0/10", Help: "`PREFIX` that these addresses are taken from"},
	{Key: "virtual-addr-network-ipv6", Field: "VirtualAddrNetworkIPv6", Default: "fd15:159f:ab53::/48", Help: "`PREFIX` of their IPv6 addresses, also in brackets as [2001:db8::]/32; \"\" for none"},
	{Key: "safe-socks", Field: "SafeSOCKS", Help: "refuse SOCKS requests that have an address instead of a host name"},
	{Key: "warn-unsafe-socks", Field: "WarnUnsafeSOCKS", Default: "true", Help: "warn of them in the log, once a minute at most"},
	{Key: "test-socks", Field: "TestSOCKS", Help: "log of every SOCKS request whether it has a host name, without the name"},
	{Key: "extended-errors", Field: "ExtendedErrors", Help: "SOCKS 5 replies tell why an onion service failed (proposal 304)"},
	{Key: "max-connections", Field: "MaxConnections", Default: "1024", Bounds: options.Bounds{Lo: 1, Hi: 1_000_000}, Help: "`NUMBER` of connections that a port takes at a time"},
}}}

// The values of --trans-proxy-type.
const (
	transRedirect = "redirect"
	transTProxy   = "tproxy"
)

// portOf checks the listening addresses, with their flags, of one kind of port; an
// empty one opens no port.
func portOf(kind socks.Kind) func(string) error {
	return func(s string) error {
		_, err := socks.ParsePort(kind, s)
		return err
	}
}

// manners has the options for a proxy's connections.
var manners = options.Table{
	{Title: "Isolation", Options: []options.Option{
		{Key: "isolate-client-addr", Field: "IsolateClientAddr", Default: "true", Help: "keep programs at different addresses on different circuits"},
		{Key: "isolate-protocol", Field: "IsolateProtocol", Help: "keep SOCKS 4, SOCKS 5, HTTP and DNS on different circuits"},
	}},
	{Title: "Process", Options: []options.Option{
		{Key: "page", Field: "Page", Each: checkPage, Zero: "none", Help: "`ADDR` of a dashboard for a browser: an address of loopback, such as 127.0.0.1:0, or unix:PATH; the line \"page\" of standard output has its URL with a token"},
		{Key: "drain", Field: "Drain", Default: "30s", Bounds: options.Bounds{Hi: 1<<63 - 1}, Help: "`TIME` that open connections may go on after SIGTERM"},
	}},
}
