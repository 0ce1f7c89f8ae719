package netfile

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/tomlfile"
)

// ImportTorrc makes a network from a torrc of C tor (tor(1)): its DirAuthority,
// FallbackDir, TestingTorNetwork, EnforceDistinctSubnets and voting-interval
// lines. Other options do not describe a network and are ignored, except
// %include, which is an error. name becomes the network's name. Errors name the
// line.
func ImportTorrc(name string, torrc []byte) (*netdir.Network, error) {
	if len(torrc) > tomlfile.MaxSize {
		return nil, fault.New(fault.Config, "torrc: %d bytes, more than the %d that one may have", len(torrc), tomlfile.MaxSize)
	}
	n := &netdir.Network{Name: name, Testing: netdir.DefaultTesting()}
	// TestingTorNetwork changes defaults, on whatever line it is; a line that
	// sets the value itself has priority.
	testingNet, subnets := false, ""
	for _, l := range torrcLines(string(torrc)) {
		var err error
		switch strings.ToLower(l.key) {
		case "dirauthority":
			err = importAuthority(n, l.value)
		case "fallbackdir":
			err = importFallback(n, l.value)
		case "testingtornetwork":
			testingNet, err = torrcBool(l.value)
		case "enforcedistinctsubnets":
			_, err = torrcBool(l.value)
			subnets = l.value
		case "v3authvotinginterval":
			n.Testing.VotingInterval, err = torrcInterval(l.value)
		case "%include":
			err = fault.New(fault.Config, "%%include cannot be followed: import the file that it names")
		}
		if err != nil {
			return nil, fault.New(fault.Config, "torrc line %d: %s: %w", l.number, l.key, err)
		}
	}
	n.Testing.AllowPrivateAddresses = testingNet
	n.Testing.EnforceDistinctSubnets = subnets == "1" || subnets == "" && !testingNet
	if !testingNet {
		n.Testing.VotingInterval = 0 // the consensus sets it
	}
	if len(n.Authorities) == 0 {
		return nil, fault.New(fault.Config, "torrc: no DirAuthority line: C tor would use the public network, which is built into Chive, too")
	}
	if err := check(n); err != nil {
		return nil, fault.New(fault.Config, "torrc: %w", err)
	}
	return n, nil
}

// torrcLine is one option.
type torrcLine struct {
	number     int // of its first line, from 1
	key, value string
}

// torrcLines splits a torrc: comments, continued lines, and quoted values.
func torrcLines(s string) []torrcLine {
	var out []torrcLine
	var pending strings.Builder // a line that continues on the next one
	first := 0
	for i, raw := range strings.Split(s, "\n") {
		raw = strings.TrimRight(raw, "\r")
		if pending.Len() == 0 {
			first = i + 1
		}
		text := raw
		if c := strings.IndexByte(text, '#'); c >= 0 && !strings.Contains(text[:c], `"`) {
			text = text[:c]
		}
		if head, ok := strings.CutSuffix(strings.TrimRight(text, " \t"), `\`); ok {
			pending.WriteString(head)
			pending.WriteByte(' ')
			continue
		}
		if pending.Len() > 0 && strings.HasPrefix(strings.TrimSpace(raw), "#") {
			pending.WriteByte(' ') // a comment between continued lines does not end the continuation
			continue
		}
		pending.WriteString(text)
		text = strings.TrimSpace(pending.String())
		pending.Reset()
		if text == "" {
			continue
		}
		key, value := text, ""
		if c := strings.IndexAny(text, " \t"); c >= 0 {
			key, value = text[:c], strings.TrimSpace(text[c:])
		}
		if unquoted, err := strconv.Unquote(value); err == nil && strings.HasPrefix(value, `"`) {
			value = unquoted
		}
		// "+Option" appends and "/Option" resets, in files that add to others.
		out = append(out, torrcLine{first, strings.TrimPrefix(key, "+"), value})
	}
	return out
}

func torrcBool(s string) (bool, error) {
	switch s {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fault.New(fault.Config, "%q is neither 0 nor 1", s)
}

// torrcInterval reads C tor's time intervals: a number and an optional unit.
func torrcInterval(s string) (time.Duration, error) {
	number, unit, _ := strings.Cut(s, " ")
	v, err := strconv.ParseUint(number, 10, 31)
	units := map[string]time.Duration{
		"": time.Second, "second": time.Second, "seconds": time.Second, "sec": time.Second,
		"minute": time.Minute, "minutes": time.Minute, "min": time.Minute,
		"hour": time.Hour, "hours": time.Hour, "hr": time.Hour,
	}
	u, ok := units[strings.ToLower(strings.TrimSpace(unit))]
	if err != nil || !ok || time.Duration(v) > maxInterval/u || time.Duration(v)*u < minInterval {
		return 0, fault.New(fault.Config, "%q is not an interval from %v to %v", s, minInterval, maxInterval)
	}
	return time.Duration(v) * u, nil
}

// importAuthority reads [nickname] [flags] address:dirport fingerprint.
func importAuthority(n *netdir.Network, value string) error {
	var a netdir.Authority
	var orport uint16
	var v6 netip.AddrPort
	f := strings.Fields(value)
	if len(f) > 0 && validNickname(f[0]) {
		a.Nickname, f = f[0], f[1:]
	}
	for ; len(f) > 0 && (f[0][0] < '0' || f[0][0] > '9'); f = f[1:] {
		key, v, _ := strings.Cut(f[0], "=")
		var err error
		switch strings.ToLower(key) {
		case "no-v2", "hs", "no-hs", "weight", "upload", "download", "vote":
			// obsolete, or for connections from relays and authorities
		case "bridge":
			return fault.New(fault.Config, "bridge authorities are not supported")
		case "orport":
			orport, err = torrcPort(v)
		case "ipv6":
			v6, err = addrPort(v)
		case "v3ident":
			a.V3Ident, err = ident.ParseRSAID(v)
		default:
			err = fault.New(fault.Config, "unknown flag")
		}
		if err != nil {
			return fault.New(fault.Config, "%s: %w", key, err)
		}
	}
	if len(f) < 2 {
		return fault.New(fault.Config, "an address with a port and a fingerprint are needed")
	}
	var err error
	if a.DirPort, err = addrPort(f[0]); err != nil {
		return err
	}
	if a.RSA, err = ident.ParseRSAID(strings.Join(f[1:], "")); err != nil {
		return err
	}
	if a.V3Ident.IsZero() {
		return fault.New(fault.Config, "it has no v3ident, so it does not sign consensuses")
	}
	if a.Nickname == "" {
		a.Nickname = "authority" + strconv.Itoa(len(n.Authorities)+1)
	}
	a.ORPorts = orPorts(a.DirPort.Addr(), orport, v6)
	n.Authorities = append(n.Authorities, a)
	return nil
}

// importFallback reads address:dirport orport=N id=FINGERPRINT [ipv6=...].
func importFallback(n *netdir.Network, value string) error {
	var b netdir.Fallback
	var orport uint16
	var v6 netip.AddrPort
	var addr netip.Addr
	for _, f := range strings.Fields(value) {
		key, v, option := strings.Cut(f, "=")
		var err error
		switch {
		case !option && addr.IsValid():
			err = fault.New(fault.Config, "a second address")
		case !option:
			// This is the port of a DirPort, which Chive does not use; it may be
			// 0.
			var ap netip.AddrPort
			if ap, err = netip.ParseAddrPort(f); err == nil {
				addr = ap.Addr()
			}
		case key == "orport":
			orport, err = torrcPort(v)
		case key == "id":
			b.RSA, err = ident.ParseRSAID(v)
		case key == "ipv6":
			v6, err = addrPort(v)
		case key == "weight":
		default:
			err = fault.New(fault.Config, "unknown option")
		}
		if err != nil {
			return fault.New(fault.Config, "%s: %w", key, err)
		}
	}
	if !addr.IsValid() || orport == 0 || b.RSA.IsZero() {
		return fault.New(fault.Config, "an address, orport and id are needed")
	}
	b.ORPorts = orPorts(addr, orport, v6)
	n.Fallbacks = append(n.Fallbacks, b)
	return nil
}

func orPorts(addr netip.Addr, port uint16, v6 netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	if port != 0 {
		out = append(out, netip.AddrPortFrom(addr, port))
	}
	if v6.IsValid() {
		out = append(out, v6)
	}
	return out
}

func torrcPort(s string) (uint16, error) {
	p, err := strconv.ParseUint(s, 10, 16)
	if err != nil || p == 0 {
		return 0, fault.New(fault.Config, "%q is not a port", s)
	}
	return uint16(p), nil
}
