package netfile

import (
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// Bounds of a network file's content. C tor votes no faster than every ten
// seconds, on test networks.
const (
	minInterval    = 10 * time.Second
	maxInterval    = 24 * time.Hour
	maxAuthorities = 64
	maxFallbacks   = 10_000
	maxORPorts     = 16
	maxName        = 64
)

// check checks all that a client relies on.
func check(n *netdir.Network) error {
	if !validName(n.Name) {
		return fault.New(fault.Config, "name %q: use 1 to %d letters, digits, \"-\", \"_\" and \".\": the name is also that of a directory", n.Name, maxName)
	}
	if len(n.Authorities) == 0 || len(n.Authorities) > maxAuthorities {
		return fault.New(fault.Config, "%d authorities: a network has 1 to %d", len(n.Authorities), maxAuthorities)
	}
	if len(n.Fallbacks) > maxFallbacks {
		return fault.New(fault.Config, "%d fallbacks: at most %d", len(n.Fallbacks), maxFallbacks)
	}
	seen := map[ident.RSAID]bool{}
	reachable := false
	for i, a := range n.Authorities {
		err := func() error {
			switch {
			case !validNickname(a.Nickname):
				return fault.New(fault.Config, "nickname: not 1 to 19 letters and digits")
			case a.V3Ident.IsZero() || a.RSA.IsZero():
				return fault.New(fault.Config, "v3ident and rsa are needed")
			case seen[a.V3Ident]:
				// One key must not count twice for a majority.
				return fault.New(fault.Config, "v3ident is another authority's")
			}
			seen[a.V3Ident] = true
			reachable = reachable || len(a.ORPorts) > 0
			if a.DirPort.IsValid() {
				if err := checkAddrs(n, a.DirPort); err != nil {
					return err
				}
			}
			return checkAddrs(n, a.ORPorts...)
		}()
		if err != nil {
			return fault.New(fault.Config, "authority %d (%q): %w", i+1, a.Nickname, err)
		}
	}
	for i, b := range n.Fallbacks {
		if b.RSA.IsZero() || len(b.ORPorts) == 0 {
			return fault.New(fault.Config, "fallback %d: rsa and orport are needed", i+1)
		}
		if err := checkAddrs(n, b.ORPorts...); err != nil {
			return fault.New(fault.Config, "fallback %d: %w", i+1, err)
		}
	}
	if !reachable && len(n.Fallbacks) == 0 {
		return fault.New(fault.Config, "no authority has an orport and there is no fallback, so a client could ask no relay")
	}
	return nil
}

func checkAddrs(n *netdir.Network, aps ...netip.AddrPort) error {
	if len(aps) > maxORPorts {
		return fault.New(fault.Config, "%d addresses, at most %d", len(aps), maxORPorts)
	}
	for _, ap := range aps {
		a := ap.Addr()
		if a.IsUnspecified() || a.Zone() != "" || a.Is4In6() || ap.Port() == 0 {
			return fault.New(fault.Config, "%s is not an address that can be connected to", ap)
		}
		if !n.Testing.AllowPrivateAddresses && !netaddr.Public(a) {
			return fault.New(fault.Config, "%s is not a public address; a private network needs allow_private_addresses = true under [testing]", ap)
		}
	}
	return nil
}

// validName reports whether a network's name can be a directory's name.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// validNickname follows dir-spec's definition of a nickname.
func validNickname(s string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= 19
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
