package pt

import (
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/ptspec"
)

// BridgeLine holds all that a user is told about a bridge (tor(1), "Bridge").
type BridgeLine struct {
	Transport   string         // empty: a plain ORPort
	Addr        netip.AddrPort // the bridge's address, as the transport understands it
	Fingerprint ident.RSAID    // zero: unknown, so any relay that answers is accepted
	Args        ptspec.Args    // arguments of the transport
}

// ParseBridgeLine reads "[Bridge] [transport] address:port [fingerprint] [k=v
// ...]". Without a port, the port is 443, as in C tor.
func ParseBridgeLine(s string) (BridgeLine, error) {
	var l BridgeLine
	if len(s) > ptspec.MaxArgs {
		return l, fault.New(fault.Config, "bridge line: longer than %d bytes", ptspec.MaxArgs)
	}
	f := strings.Fields(s)
	if len(f) > 0 && strings.EqualFold(f[0], "bridge") {
		f = f[1:]
	}
	if len(f) > 0 && ptspec.ValidName(f[0]) {
		l.Transport, f = f[0], f[1:]
	}
	if len(f) == 0 {
		return l, fault.New(fault.Config, "bridge line: it has no address")
	}
	var err error
	if l.Addr, err = parseAddr(f[0]); err != nil {
		return l, err
	}
	if f = f[1:]; len(f) > 0 && !strings.Contains(f[0], "=") {
		fp := strings.TrimPrefix(f[0], "$")
		if l.Fingerprint, err = ident.ParseRSAID(fp); err != nil || l.Fingerprint.IsZero() {
			return l, fault.New(fault.Config, "bridge line: the fingerprint is not 40 hexadecimal digits")
		}
		f = f[1:]
	}
	if len(f) > 0 && l.Transport == "" {
		return l, fault.New(fault.Config, "bridge line: arguments without a transport")
	}
	l.Args = ptspec.Args{}
	for _, kv := range f {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return l, fault.New(fault.Config, "bridge line: an argument is not key=value")
		}
		if _, twice := l.Args[k]; twice {
			return l, fault.New(fault.Config, "bridge line: the argument %.40q occurs twice", k)
		}
		l.Args[k] = v
	}
	if n := len(l.Args.ClientText()); n > ptspec.MaxClientText {
		return l, fault.New(fault.Config, "bridge line: the arguments have %d bytes; the limit is %d", n, ptspec.MaxClientText)
	}
	return l, nil
}

func parseAddr(s string) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		a, aerr := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
		if aerr != nil {
			return ap, fault.New(fault.Config, "bridge line: there is neither an address (IP:PORT) nor a transport's name before one")
		}
		ap = netip.AddrPortFrom(a, 443)
	}
	if ap.Port() == 0 || ap.Addr().Zone() != "" {
		return ap, fault.New(fault.Config, "bridge line: the address has port 0 or a zone")
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), nil
}

// String returns the line, as ParseBridgeLine reads it.
func (l BridgeLine) String() string {
	var w []string
	if l.Transport != "" {
		w = append(w, l.Transport)
	}
	w = append(w, l.Addr.String())
	if !l.Fingerprint.IsZero() {
		w = append(w, l.Fingerprint.String())
	}
	for _, k := range l.Args.Keys() {
		w = append(w, k+"="+l.Args[k])
	}
	return strings.Join(w, " ")
}

// TransportLine names a program or proxy that provides transports (tor(1),
// "ClientTransportPlugin").
type TransportLine struct {
	Transports []string
	Path       string   // the program; empty: Proxy is a proxy that runs already
	Args       []string // arguments of the program
	Proxy      Method   // the proxy
}

// ParseTransportLine reads "[ClientTransportPlugin] name[,name] exec PATH [ARG
// ...]" and "name[,name] socks4|socks5 IP:PORT".
func ParseTransportLine(s string) (TransportLine, error) {
	var l TransportLine
	f := strings.Fields(s)
	if len(f) > 0 && strings.EqualFold(f[0], "ClientTransportPlugin") {
		f = f[1:]
	}
	if len(f) < 3 {
		return l, fault.New(fault.Config, `transport plugin: it is not "NAME exec PATH" or "NAME socks5 IP:PORT"`)
	}
	l.Transports = strings.Split(f[0], ",")
	for _, n := range l.Transports {
		if !ptspec.ValidName(n) {
			return l, fault.New(fault.Config, "transport plugin: %.40q is not a transport's name", n)
		}
	}
	switch f[1] {
	case "exec":
		l.Path, l.Args = f[2], f[3:]
	case "socks4", "socks5":
		a, err := netip.ParseAddrPort(f[2])
		if err != nil || a.Port() == 0 || len(f) > 3 {
			return l, fault.New(fault.Config, "transport plugin: %s must be followed by exactly one IP:PORT", f[1])
		}
		l.Proxy = Method{Proto: f[1], Addr: a}
	default:
		return l, fault.New(fault.Config, "transport plugin: %.20q is not exec, socks4 or socks5", f[1])
	}
	return l, nil
}
