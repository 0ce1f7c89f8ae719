package socks

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
)

// Kind is a kind of port.
type Kind uint8

// The kinds, as bits.
const (
	SOCKSPort Kind = 1 << iota
	HTTPPort
	DNSPort
	TransPort

	tunnels  = SOCKSPort | HTTPPort // programs name the destination
	streams  = tunnels | TransPort
	anyPort  = streams | DNSPort
	onlyUnix = 0o600 // the mode of a socket that nobody else may use
)

// kindNames are the names of the ports' options.
var kindNames = map[Kind]string{SOCKSPort: "socks", HTTPPort: "http", DNSPort: "dns", TransPort: "trans"}

func (k Kind) String() string { return kindNames[k] }

// Port is an address and what the flags after it say.
type Port struct {
	Addr string      // see CheckAddr; empty: no port
	Mode fs.FileMode // of a unix socket

	// Shares are the fields of keys by which the port, by its own flags, does not
	// keep streams apart.
	Shares isolation.By

	apply []func(*Config)
}

// flag is a word after a port's address, with C tor's name (tor(1), SocksPort).
// "No" before it makes on false.
type flag struct {
	name  string
	kinds Kind
	set   func(c *Config, on bool)
}

// flags are the flags of ports, except SessionGroup, which has a number.
var flags = []flag{
	isolating("IsolateClientAddr", anyPort, isolation.ByClientAddr),
	isolating("IsolateClientProtocol", anyPort, isolation.ByProtocol),
	isolating("IsolateDestAddr", anyPort, isolation.ByDestAddr),
	isolating("IsolateDestPort", anyPort, isolation.ByDestPort),
	{"IsolateSOCKSAuth", tunnels, func(c *Config, on bool) { c.ShareAuth = !on }},
	{"KeepAliveIsolateSOCKSAuth", tunnels, func(c *Config, on bool) { c.KeepAlive = on }},
	{"IPv4Traffic", streams, func(c *Config, on bool) { c.Bars = c.Bars.with(BarIPv4, !on) }},
	{"IPv6Traffic", streams, func(c *Config, on bool) { c.Bars = c.Bars.with(BarIPv6, !on) }},
	{"DNSRequest", tunnels, func(c *Config, on bool) { c.Bars = c.Bars.with(BarNames, !on) }},
	{"OnionTraffic", tunnels, func(c *Config, on bool) { c.Bars = c.Bars.with(BarOnions, !on) }},
	{onionOnly, tunnels, func(c *Config, _ bool) { c.Bars |= BarIPv4 | BarIPv6 | BarNames }},
	{"PreferIPv6", tunnels, func(c *Config, on bool) { c.PreferIPv6 = on }},
	{"PreferSOCKSNoAuth", SOCKSPort, func(c *Config, on bool) { c.PreferNoAuth = on }},
	{"ExtendedErrors", SOCKSPort, func(c *Config, on bool) { c.ExtendedErrors = on }},
	{"GroupWritable", tunnels, nil},
	{"WorldWritable", tunnels, nil},
}

// onionOnly is a flag that has no opposite: C tor has none either.
const onionOnly = "OnionTrafficOnly"

// modes are the permissions that flags add to a unix socket.
var modes = map[string]fs.FileMode{"GroupWritable": 0o060, "WorldWritable": 0o006}

func isolating(name string, kinds Kind, by isolation.By) flag {
	return flag{name, kinds, func(c *Config, on bool) {
		if c.Isolate &^= by; on {
			c.Isolate |= by
		}
	}}
}

// ParsePort reads a port's address and the flags after it, such as
// "127.0.0.1:9050 IsolateDestAddr NoIPv6Traffic". A path with spaces stands in
// quotes: unix:"/run/my socks".
func ParsePort(kind Kind, text string) (Port, error) {
	p := Port{Mode: onlyUnix}
	var words []string
	p.Addr, words = cutAddr(text)
	if p.Addr == "" {
		return p, nil
	}
	if err := CheckAddr(p.Addr); err != nil {
		return p, err
	}
	unix := strings.HasPrefix(p.Addr, unixPrefix)
	if unix && kind&tunnels == 0 {
		return p, fault.New(fault.Config, "listening address %q: a %s port needs an IP address", p.Addr, kind)
	}
	if kind == TransPort {
		if err := canTrans(); err != nil {
			return p, err
		}
	}
	grouped := false
	for _, w := range words {
		if number, ok := cutFold(w, "SessionGroup="); ok {
			n, err := strconv.ParseUint(number, 10, 31)
			if err != nil || grouped {
				return p, fault.New(fault.Config, "%s: one number from 0 to 2147483647 is the group", w)
			}
			grouped = true
			p.apply = append(p.apply, func(c *Config) { c.Group = "group " + strconv.FormatUint(n, 10) })
			continue
		}
		f, on, err := findFlag(kind, w)
		if err != nil {
			return p, err
		}
		if m := modes[f.name]; m != 0 {
			if !unix {
				return p, fault.New(fault.Config, "%s is for unix sockets only", w)
			}
			if p.Mode &^= m; on {
				p.Mode |= m
			}
			continue
		}
		p.apply = append(p.apply, func(c *Config) { f.set(c, on) })
	}
	if p.Mode&0o006 != 0 {
		p.Mode |= 0o060 // or else the users of its group were the only ones without access
	}
	return p, p.check(kind)
}

// check reports flags that contradict each other, and notes what they share.
func (p *Port) check(kind Kind) error {
	everything := isolation.ByClientAddr | isolation.ByProtocol | isolation.ByDestAddr | isolation.ByDestPort
	c := Config{Isolate: everything}
	if kind == TransPort {
		c.Bars = BarNames | BarOnions // which no connection to an address can ask for
	}
	p.Apply(&c)
	p.Shares = everything &^ c.Isolate
	switch b := c.Bars; {
	case b&(BarIPv4|BarIPv6|BarOnions) == BarIPv4|BarIPv6|BarOnions:
		return fault.New(fault.Config, "the flags let nothing through: neither IPv4 nor IPv6 nor onion services")
	case b&(BarIPv4|BarIPv6) == BarIPv4|BarIPv6 && b&BarNames == 0:
		return fault.New(fault.Config, "the flags let host names through, and no address that one could have: add NoDNSRequest, or say %s", onionOnly)
	case c.KeepAlive && c.ShareAuth:
		return fault.New(fault.Config, "KeepAliveIsolateSOCKSAuth needs IsolateSOCKSAuth")
	}
	return nil
}

// Apply makes a configuration what the flags say.
func (p *Port) Apply(c *Config) {
	for _, set := range p.apply {
		set(c)
	}
}

// findFlag returns the flag that a word names, and whether the word sets it.
func findFlag(kind Kind, w string) (*flag, bool, error) {
	for i := range flags {
		f := &flags[i]
		rest, no := cutFold(w, "No")
		switch {
		case strings.EqualFold(w, f.name):
			no = false
		case no && strings.EqualFold(rest, f.name):
		default:
			continue
		}
		switch {
		case f.kinds&kind == 0:
			return nil, false, fault.New(fault.Config, "the flag %s has no meaning for a %s port", w, kind)
		case no && f.name == onionOnly:
			return nil, false, fault.New(fault.Config, "%s is no flag: say DNSRequest, IPv4Traffic or IPv6Traffic", w)
		}
		return f, !no, nil
	}
	return nil, false, fault.New(fault.Config, "%q is no flag of a port; a path with spaces stands in quotes: unix:\"PATH\"", w)
}

// cutFold removes a prefix, whatever the case of its letters.
func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// cutAddr splits an address from its flags. A path may stand in quotes.
func cutAddr(text string) (addr string, flags []string) {
	text = strings.TrimSpace(text)
	if quoted, ok := strings.CutPrefix(text, unixPrefix+`"`); ok {
		if path, after, ok := strings.Cut(quoted, `"`); ok {
			return unixPrefix + path, strings.Fields(after)
		}
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}
