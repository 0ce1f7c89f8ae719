package pt

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/upstream"
)

// Env holds the settings that Tor gives a plugin in environment variables
// (pt-spec 3.2).
type Env struct {
	Client bool // client or server role

	StateDir         string
	ExitOnStdinClose bool
	Transports       []string // asked for; "*" is all

	Proxy    *upstream.Proxy // client: how to reach the network, or nil
	Outbound netaddr.Sources // client: the addresses that its connections come from

	BindAddrs  map[string]netip.AddrPort // server: where to listen, by transport
	Options    map[string]Args           // server: options, by transport
	ORPort     netip.AddrPort            // server: zero if there is none
	ExtORPort  netip.AddrPort            // server: zero if there is none
	CookieFile string                    // server: the ExtORPort's cookie file
}

// Managed reports whether Tor launched this process as a plugin.
func Managed(getenv func(string) string) bool {
	return getenv("TOR_PT_MANAGED_TRANSPORT_VER") != ""
}

// errVersion is the answer to a parent that does not speak version 1.
var errVersion = fault.New(fault.Config, "no-version")

// parseEnv reads the environment.
func parseEnv(getenv func(string) string) (*Env, error) {
	if !slices.Contains(strings.Split(getenv("TOR_PT_MANAGED_TRANSPORT_VER"), ","), "1") {
		return nil, errVersion
	}
	e := &Env{StateDir: getenv("TOR_PT_STATE_LOCATION"), ExitOnStdinClose: getenv("TOR_PT_EXIT_ON_STDIN_CLOSE") == "1"}
	if e.StateDir == "" {
		return nil, fault.New(fault.Config, "no TOR_PT_STATE_LOCATION environment variable")
	}
	client, server := getenv("TOR_PT_CLIENT_TRANSPORTS"), getenv("TOR_PT_SERVER_TRANSPORTS")
	switch {
	case client != "" && server != "":
		return nil, fault.New(fault.Config, "both TOR_PT_CLIENT_TRANSPORTS and TOR_PT_SERVER_TRANSPORTS are set")
	case client != "":
		e.Client, e.Transports = true, strings.Split(client, ",")
		return e, e.client(getenv)
	case server != "":
		e.Transports = strings.Split(server, ",")
		return e, e.server(getenv)
	}
	return nil, fault.New(fault.Config, "neither TOR_PT_CLIENT_TRANSPORTS nor TOR_PT_SERVER_TRANSPORTS is set")
}

func (e *Env) client(getenv func(string) string) (err error) {
	if s := getenv("TOR_PT_PROXY"); s != "" {
		if e.Proxy, err = upstream.Parse(s); err != nil {
			return &proxyError{"TOR_PT_PROXY: " + err.Error()}
		}
	}
	var list []string
	for _, name := range []string{"TOR_PT_OUTBOUND_BIND_ADDRESS_V4", "TOR_PT_OUTBOUND_BIND_ADDRESS_V6"} {
		if s := getenv(name); s != "" {
			list = append(list, s)
		}
	}
	if e.Outbound, err = netaddr.ParseSources(list); err != nil {
		return fault.New(fault.Config, "TOR_PT_OUTBOUND_BIND_ADDRESS: %w", err)
	}
	return nil
}

func (e *Env) server(getenv func(string) string) (err error) {
	if e.Options, err = ParseServerOptions(getenv("TOR_PT_SERVER_TRANSPORT_OPTIONS")); err != nil {
		return fault.New(fault.Config, "TOR_PT_SERVER_TRANSPORT_OPTIONS: %w", err)
	}
	e.BindAddrs = map[string]netip.AddrPort{}
	if s := getenv("TOR_PT_SERVER_BINDADDR"); s != "" {
		for _, p := range strings.Split(s, ",") {
			name, addr, ok := strings.Cut(p, "-")
			a, err := netip.ParseAddrPort(addr)
			if !ok || err != nil {
				return fault.New(fault.Config, "TOR_PT_SERVER_BINDADDR isn't <transport>-<address>:<port>")
			}
			e.BindAddrs[name] = a
		}
	}
	for _, v := range []struct {
		name string
		to   *netip.AddrPort
	}{{"TOR_PT_ORPORT", &e.ORPort}, {"TOR_PT_EXTENDED_SERVER_PORT", &e.ExtORPort}} {
		if s := getenv(v.name); s != "" {
			if *v.to, err = netip.ParseAddrPort(s); err != nil {
				return fault.New(fault.Config, "%s isn't <address>:<port>", v.name)
			}
		}
	}
	e.CookieFile = getenv("TOR_PT_AUTH_COOKIE_FILE")
	if e.ExtORPort.IsValid() && e.CookieFile == "" {
		return fault.New(fault.Config, "TOR_PT_EXTENDED_SERVER_PORT is set without TOR_PT_AUTH_COOKIE_FILE")
	}
	if !e.ExtORPort.IsValid() && !e.ORPort.IsValid() {
		return fault.New(fault.Config, "neither TOR_PT_ORPORT nor TOR_PT_EXTENDED_SERVER_PORT is set")
	}
	return nil
}

// wants reports whether Tor asked for a transport.
func (e *Env) wants(name string) bool {
	return slices.Contains(e.Transports, name) || slices.Contains(e.Transports, "*")
}

// proxyError is a problem with TOR_PT_PROXY, which has an answer line of its
// own.
type proxyError struct{ msg string }

func (e *proxyError) Error() string { return e.msg }
