package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
)

// How many authorities and fallback directories a list may have. C tor 0.4.9.7 was released
// with none of the latter by mistake.
const (
	minAuthorities, maxAuthorities = 5, 20
	minFallbacks, maxFallbacks     = 100, 500
)

// network is the public network as a tor has it.
type network struct {
	tor         string
	date        time.Time // on which the fallback directories were chosen
	authorities []string  // lines of public.txt
	fallbacks   []string
}

// networkOf returns the network in a peer's program.
func networkOf(p *peer) (*network, error) {
	n := &network{tor: p.version}
	var err error
	if n.date, err = listDate(p.releases); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, s := range p.strings {
		if !entry.MatchString(s) {
			continue
		}
		e, err := parseEntry(s)
		if err != nil {
			return nil, fmt.Errorf("a list of the program: %q: %w", s, err)
		}
		if e.nickname != "" && e.v3ident == "" {
			continue // for bridges: it takes no part in a consensus
		}
		for _, id := range []string{e.v3ident, e.rsa, e.nickname} {
			if id != "" && seen[id] {
				return nil, fmt.Errorf("a list of the program: %s is there twice", id)
			}
			seen[id] = true
		}
		if e.nickname != "" {
			n.authorities = append(n.authorities, e.line())
		} else {
			n.fallbacks = append(n.fallbacks, e.line())
		}
	}
	if a := len(n.authorities); a < minAuthorities || a > maxAuthorities {
		return nil, fmt.Errorf("the program lists %d authorities: from %d to %d are plausible", a, minAuthorities, maxAuthorities)
	}
	if f := len(n.fallbacks); f < minFallbacks || f > maxFallbacks {
		return nil, fmt.Errorf("the program lists %d fallback directories: from %d to %d are plausible", f, minFallbacks, maxFallbacks)
	}
	return n, nil
}

// entry matches entries of C tor's lists, and no other text of its program.
var entry = regexp.MustCompile(`^[0-9A-Za-z.]+ (.* )?orport=[0-9]`)

// listed is an entry of C tor's lists (tor(1), "DirAuthority" and "FallbackDir"). Only
// authorities have a nickname and a DirPort.
type listed struct {
	nickname, v3ident, rsa string
	dirPort                netip.AddrPort
	orPorts                []netip.AddrPort
}

// nickname matches a relay's nickname.
var nickname = regexp.MustCompile(`^[0-9A-Za-z]{1,19}$`)

// parseEntry reads an entry. What it does not know is an error: it might matter.
func parseEntry(s string) (e listed, err error) {
	words := strings.Fields(s)
	host, err := netip.ParseAddr(words[0])
	isAuthority, forBridges := err != nil, false
	if isAuthority {
		if e.nickname = words[0]; !nickname.MatchString(e.nickname) {
			return e, fmt.Errorf("%q is neither an address nor a nickname", words[0])
		}
	}
	var orPort, six string
	for i, w := range words[1:] {
		k, v, isOption := strings.Cut(w, "=")
		switch {
		case k == "orport" && isOption && orPort == "":
			orPort = v
		case k == "ipv6" && isOption && six == "":
			six = v
		case k == "v3ident" && isOption && isAuthority && e.v3ident == "":
			e.v3ident = v
		case k == "id" && isOption && !isAuthority && e.rsa == "":
			e.rsa = v
		case w == "bridge" && isAuthority:
			forBridges = true
		case isAuthority && !isOption: // its address; the rest is the fingerprint
			if e.dirPort, err = address(w, false); err != nil {
				return e, err
			}
			host, e.rsa = e.dirPort.Addr(), strings.Join(words[i+2:], "")
		default:
			return e, fmt.Errorf("%q is not known here", w)
		}
		if e.dirPort.IsValid() {
			break
		}
	}
	ids := []string{e.rsa}
	if isAuthority && !forBridges {
		ids = append(ids, e.v3ident)
	}
	for _, id := range ids {
		if parsed, err := ident.ParseRSAID(id); err != nil || parsed.String() != id {
			return e, fmt.Errorf("%q is not a fingerprint", id)
		}
	}
	or, err := address(host.String()+":"+orPort, false)
	if err != nil {
		return e, err
	}
	e.orPorts = append(e.orPorts, or)
	if six != "" {
		if or, err = address(six, true); err != nil {
			return e, err
		}
		e.orPorts = append(e.orPorts, or)
	}
	return e, nil
}

// address reads an address that everybody can reach.
func address(s string, six bool) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err == nil && (a.Port() == 0 || a.Addr().Is4() == six || !netaddr.Public(a.Addr())) {
		err = fmt.Errorf("%q is no public address of this kind with a port", s)
	}
	return a, err
}

// line returns the entry as a line of public.txt.
func (e listed) line() string {
	words := []string{"fallback", e.rsa}
	if e.nickname != "" {
		words = []string{"authority", e.nickname, e.v3ident, e.rsa, e.dirPort.String()}
	}
	for _, a := range e.orPorts {
		words = append(words, a.String())
	}
	return strings.Join(words, " ")
}

// text returns public.txt.
func (n *network) text() string {
	head := []string{
		"# The public Tor network, which \"make public-network\" writes from the lists in the program of",
		"# the newest tor. \"from tor VERSION DATE\" says which one, and when its fallback directories",
		"# were chosen. Fields: authority NICKNAME V3IDENT RSA DIRPORT ORPORT... and fallback RSA",
		"# ORPORT...; authorities without a v3 identity (for bridges) are left out.",
		"from tor " + n.tor + " " + n.date.Format(time.DateOnly),
	}
	return strings.Join(slices.Concat(head, n.authorities, n.fallbacks), "\n") + "\n"
}
