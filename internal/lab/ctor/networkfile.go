package ctor

import (
	"net/netip"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
)

// Description returns the network as Chive's client describes one: its
// authorities, and every other relay as a fallback directory.
func (nw *Network) Description() netdir.Network {
	d := netdir.Network{Name: "ctor", Testing: netdir.Testing{
		AllowPrivateAddresses:  true,
		EnforceDistinctSubnets: nw.opts.DistinctSubnets,
		VotingInterval:         nw.opts.VotingInterval,
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
func (nw *Network) NetworkFile() ([]byte, error) {
	d := nw.Description()
	return netfile.Format(&d)
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
	text, err := nw.NetworkFile()
	if err != nil {
		return "", err
	}
	path := filepath.Join(nw.Dir, "network.toml")
	return path, fault.Wrap(fault.Local, os.WriteFile(path, text, 0o600))
}
