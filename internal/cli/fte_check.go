package cli

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/localhttp"
)

// fteFor says which protocol and side a flag of chive fte is for; empty means
// either. Flags of fteproxy are accepted on both sides, as in fteproxy.
var fteFor = []struct{ flag, protocol, mode string }{
	{"cert", "chive", "client"},
	{"pq", "chive", "client"},
	{"chacha", "chive", "client"},
	{"wire", "chive", ""},
	{"pad-to", "chive", ""},
	{"pad-random", "chive", ""},
	{"delay", "chive", ""},
	{"http", "chive", ""},
	{"http-url", "chive", "client"},
	{"http-host", "chive", "client"},
	{"http-proxy", "chive", "client"},
	{"key", "classic", ""},
	{"max-handshakes", "", "server"},
	{"max-memory", "", "server"},
	{"handshake-timeout", "", "server"},
	{"decoy", "", "server"},
}

// minFTEMemory is the least --max-memory, in bytes: enough for a few busy
// connections.
const minFTEMemory = 8 << 20

// maxPadding is the greatest --pad-to and --pad-random, as package fte has it.
const maxPadding = 16384

// check refuses flags that would have no effect: a user of --pq or --cert must
// not get a protocol without them.
func (f *fteFlags) check(flags *pflag.FlagSet) error {
	if f.stop {
		return fault.New(fault.Config, "--stop: chive fte is no daemon and leaves no file to find it by; end it by SIGINT or SIGTERM, and it drains")
	}
	for _, o := range fteFor {
		switch {
		case !flags.Changed(o.flag):
		case o.protocol != "" && o.protocol != f.protocol:
			return fault.New(fault.Config, "--%s is for --protocol %s, and this is %s", o.flag, o.protocol, f.protocol)
		case o.mode != "" && o.mode != f.mode:
			return fault.New(fault.Config, "--%s is for a %s, and this is a %s", o.flag, o.mode, f.mode)
		}
	}
	for _, name := range f.metricsHosts {
		if err := localhttp.CheckName(name); err != nil {
			return fault.New(fault.Config, "--metrics-host: %w", err)
		}
	}
	if f.protocol == "chive" && f.mode == "client" && f.keyFile != "" {
		return fault.New(fault.Config, "--key-file is for a server: a client has the --cert that chive fte keygen printed")
	}
	if f.release != "" && f.definitions != "" {
		return fault.New(fault.Config, "give --release or --definitions, not both")
	}
	switch {
	case !f.http && (f.httpURL != "" || f.httpHost != "" || f.httpProxy != ""):
		return fault.New(fault.Config, "--http-url, --http-host and --http-proxy go with --http")
	case f.http && f.wire != "strict":
		return fault.New(fault.Config, "--http carries text only: it needs --wire strict")
	case f.maxConns < 1 || f.maxPending < 1:
		return fault.New(fault.Config, "--max-connections and --max-handshakes are at least 1")
	case f.maxMemory < minFTEMemory:
		return fault.New(fault.Config, "--max-memory is at least %d bytes", minFTEMemory)
	case f.padTo < 0 || f.padTo > maxPadding || f.padRandom < 0 || f.padRandom > maxPadding:
		return fault.New(fault.Config, "--pad-to and --pad-random are from 0 to %d bytes", maxPadding)
	case f.handshake <= 0 || f.drain < 0:
		return fault.New(fault.Config, "--handshake-timeout is above 0, and --drain not below")
	}
	return f.checkPlaces()
}

// checkPlaces refuses destinations that only the first connection would show to be wrong:
// without its decoy, a server answers strangers in another way.
func (f *fteFlags) checkPlaces() error {
	if f.decoy != "" {
		host, port, err := net.SplitHostPort(f.decoy)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || !isHost(host) {
			return fault.New(fault.Config, "--decoy %q is not HOST:PORT", f.decoy)
		}
	}
	if !isHTTP(f.httpURL) || !isHTTP(f.httpProxy) { // which may have a password
		return fault.New(fault.Config, "--http-url and --http-proxy are HTTP URLs with a host")
	}
	if u, err := url.Parse("//" + f.httpHost); f.httpHost != "" && (err != nil || u.Host != f.httpHost || !isHTTP("http://"+f.httpHost)) {
		return fault.New(fault.Config, "--http-host %q is not a host, or HOST:PORT", f.httpHost)
	}
	here, at := "client", f.clientIP // where it listens
	if f.mode == "server" {
		here, at = "server", f.serverIP
	}
	if _, err := netip.ParseAddr(at); err != nil && at != "" && at != "localhost" {
		return fault.New(fault.Config, "--%s-ip %q is not an IP address to listen at", here, at) // a name would be looked up
	}
	side, host, port := "server", f.serverIP, f.serverPort // where a client connects
	if f.mode == "server" {
		side, host, port = "proxy", f.proxyIP, f.proxyPort
	}
	switch {
	case f.mode == "client" && f.httpURL != "": // it connects there
	case !isHost(host):
		return fault.New(fault.Config, "--%s-ip %q is no address", side, host)
	case port == 0:
		return fault.New(fault.Config, "--%s-port 0: nobody can connect to that port", side)
	}
	return nil
}

// isHTTP reports whether a text, if there is one, is a URL to which requests can go.
func isHTTP(text string) bool {
	u, err := url.Parse(text)
	if text == "" || err != nil {
		return text == ""
	}
	n, bad := strconv.ParseUint(u.Port(), 10, 16)
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && isHost(u.Hostname()) && (u.Port() == "" || bad == nil && n > 0)
}

// isHost reports whether a text can be an address or a name to connect to. The empty one is
// this machine.
func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"#%/:<>?@[\\]^`{|}\x7f", r) })
}
