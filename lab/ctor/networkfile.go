package ctor

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// Description returns the network as Chive's client describes one: its
// authorities, and every other relay as a fallback directory.
func (nw *Network) Description() netdir.Network {
	d := netdir.Network{Name: "ctor", Testing: netdir.Testing{
		AllowPrivateAddresses:  true,
		EnforceDistinctSubnets: nw.opts.DistinctSubnets,
	}}
	for _, n := range nw.Routers() {
		if n.Role == Authority {
			d.Authorities = append(d.Authorities, netdir.Authority{Nickname: n.Name, V3Ident: n.V3Ident,
				RSA: n.ID.RSA, Ed: n.ID.Ed, ORPorts: n.orPorts(), DirPort: n.DirPort})
		} else {
			d.Fallbacks = append(d.Fallbacks, netdir.Fallback{RSA: n.ID.RSA, Ed: n.ID.Ed, ORPorts: n.orPorts()})
		}
	}
	return d
}

// NetworkFile returns the network as a network file (TOML).
func (nw *Network) NetworkFile() string {
	var b strings.Builder
	d := nw.Description()
	fmt.Fprintf(&b, "name = %q\n", d.Name)
	ports := func(orPorts []string) string { return `["` + strings.Join(orPorts, `", "`) + `"]` }
	for _, a := range d.Authorities {
		fmt.Fprintf(&b, "\n[[authority]]\nnickname = %q\nv3ident = %q\nrsa = %q\ned25519 = %q\norport = %s\ndirport = %q\n",
			a.Nickname, a.V3Ident, a.RSA, a.Ed, ports(texts(a.ORPorts)), a.DirPort)
	}
	for _, f := range d.Fallbacks {
		fmt.Fprintf(&b, "\n[[fallback]]\nrsa = %q\ned25519 = %q\norport = %s\n", f.RSA, f.Ed, ports(texts(f.ORPorts)))
	}
	fmt.Fprintf(&b, "\n[testing]\nallow_private_addresses = %t\nenforce_distinct_subnets = %t\n",
		d.Testing.AllowPrivateAddresses, d.Testing.EnforceDistinctSubnets)
	return b.String()
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func (n *Node) orPorts() []netip.AddrPort {
	if n.OR6.IsValid() {
		return []netip.AddrPort{n.OR, n.OR6}
	}
	return []netip.AddrPort{n.OR}
}

// WriteNetworkFile writes NetworkFile below the network's directory and returns
// its path.
func (nw *Network) WriteNetworkFile() (string, error) {
	path := filepath.Join(nw.Dir, "network.toml")
	return path, fault.Wrap(fault.Local, os.WriteFile(path, []byte(nw.NetworkFile()), 0o600))
}
