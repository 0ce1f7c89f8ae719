package ptspec

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

// ErrVersion is the answer to a parent that does not speak version 1.
var ErrVersion = fault.New(fault.Config, "no-version")

// ParseEnv reads the environment of a plugin.
func ParseEnv(getenv func(string) string) (*Env, error) {
	if !slices.Contains(strings.Split(getenv("TOR_PT_MANAGED_TRANSPORT_VER"), ","), "1") {
		return nil, ErrVersion
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
			return &ProxyError{"TOR_PT_PROXY: " + err.Error()}
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

// Wants reports whether Tor asked for a transport.
func (e *Env) Wants(name string) bool {
	return slices.Contains(e.Transports, name) || slices.Contains(e.Transports, "*")
}

// ProxyError is a problem with TOR_PT_PROXY, which has an answer line of its
// own.
type ProxyError struct{ msg string }

func (e *ProxyError) Error() string { return e.msg }

// Vars returns the variables that ParseEnv reads. Each transport of a server has an entry in
// BindAddrs, as from C tor: goptlib, which most transports use, ends without the variable,
// and offers no transport that is not in it.
func (e *Env) Vars() (vars []string) {
	set := func(k, v string) { vars = append(vars, "TOR_PT_"+k+"="+v) }
	set("MANAGED_TRANSPORT_VER", "1")
	set("STATE_LOCATION", e.StateDir)
	if e.ExitOnStdinClose {
		set("EXIT_ON_STDIN_CLOSE", "1")
	}
	if a := e.Outbound.V4; a.IsValid() {
		set("OUTBOUND_BIND_ADDRESS_V4", a.String())
	}
	if a := e.Outbound.V6; a.IsValid() {
		set("OUTBOUND_BIND_ADDRESS_V6", "["+a.String()+"]")
	}
	if e.Client {
		set("CLIENT_TRANSPORTS", strings.Join(e.Transports, ","))
		if e.Proxy != nil {
			set("PROXY", e.Proxy.URL().String())
		}
		return vars
	}
	set("SERVER_TRANSPORTS", strings.Join(e.Transports, ","))
	var bind []string
	for _, name := range e.Transports {
		bind = append(bind, name+"-"+e.BindAddrs[name].String())
	}
	set("SERVER_BINDADDR", strings.Join(bind, ","))
	if o := serverOptions(e.Options); o != "" {
		set("SERVER_TRANSPORT_OPTIONS", o)
	}
	if e.ORPort.IsValid() {
		set("ORPORT", e.ORPort.String())
	}
	if e.ExtORPort.IsValid() {
		set("EXTENDED_SERVER_PORT", e.ExtORPort.String())
		set("AUTH_COOKIE_FILE", e.CookieFile)
	}
	return vars
}
