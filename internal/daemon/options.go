package daemon

import (
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
	{Key: "sandbox", Field: "Sandbox", Default: sandboxOff, OneOf: []string{sandboxOff, sandboxAuto, sandboxRequire},
		Help: "let the process use only the files that it needs, by Landlock: `MODE` off, auto (where the kernel can) or require"},
}}}

var logTable = options.Table{{Title: "Process", Options: []options.Option{
	{Key: "log-level", Field: "LogLevel", Default: "info", Help: "lowest `LEVEL` to log: debug, info, warn or error"},
	{Key: "log-format", Field: "LogFormat", Default: "text", OneOf: []string{"text", "json"}, Help: "`FORMAT` of the log: text or json"},
}}}

// listeners has the ports of a proxy.
var listeners = options.Table{{Title: "Ports", Options: []options.Option{
	{Key: "socks", Field: "SOCKS", Default: DefaultSOCKS, Each: portAddr, Help: "`ADDR` of a SOCKS 4, 4a and 5 proxy: a port, IP:PORT or unix:PATH; \"\" for none"},
	{Key: "http", Field: "HTTP", Each: portAddr, Help: "`ADDR` of an HTTP CONNECT proxy"},
	{Key: "dns", Field: "DNS", Each: portAddr, Help: "`ADDR` of a DNS port, UDP and TCP"},
	{Key: "extended-errors", Field: "ExtendedErrors", Help: "SOCKS 5 replies tell why an onion service failed (proposal 304)"},
	{Key: "max-connections", Field: "MaxConnections", Default: "1024", Bounds: options.Bounds{Lo: 1, Hi: 1_000_000}, Help: "`NUMBER` of connections that a port takes at a time"},
}}}

// portAddr checks a listening address; an empty one opens no port.
func portAddr(s string) error {
	if s == "" {
		return nil
	}
	return socks.CheckAddr(s)
}

// manners has the options for a proxy's connections.
var manners = options.Table{
	{Title: "Isolation", Options: []options.Option{
		{Key: "isolate-client-addr", Field: "IsolateClientAddr", Default: "true", Help: "keep programs at different addresses on different circuits"},
		{Key: "isolate-protocol", Field: "IsolateProtocol", Help: "keep SOCKS 4, SOCKS 5, HTTP and DNS on different circuits"},
	}},
	{Title: "Process", Options: []options.Option{
		{Key: "drain", Field: "Drain", Default: "30s", Bounds: options.Bounds{Hi: 1<<63 - 1}, Help: "`TIME` that open connections may go on after SIGTERM"},
	}},
}
