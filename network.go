package chive

import (
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Network describes a Tor network for clients and relays: its directory
// authorities, the directory caches to ask first, and the exceptions that a
// private network needs. It does not change.
type Network struct{ dir *netdir.Network }

// PublicNetwork returns the public Tor network, with the directory authorities
// and fallback directories that are built in: those of a release of C tor, which
// "chive version" names.
func PublicNetwork() *Network { return &Network{netdir.Public()} }

// LoadNetwork reads a network file; see docs/operators.md for its format. The
// error names the wrong entry.
func LoadNetwork(path string) (*Network, error) {
	doc, err := atomicfile.Read(path, tomlfile.MaxSize)
	if err != nil {
		return nil, fault.New(fault.Config, "network file: %w", err)
	}
	n, err := netfile.Parse(path, doc)
	if err != nil {
		return nil, err
	}
	return &Network{n}, nil
}

// ParseNetwork reads a network file's text.
func ParseNetwork(doc []byte) (*Network, error) {
	n, err := netfile.Parse("network file", doc)
	if err != nil {
		return nil, err
	}
	return &Network{n}, nil
}

// ImportTorrc makes a network from the DirAuthority, FallbackDir and
// TestingTorNetwork lines of a C tor configuration file, and calls it name.
func ImportTorrc(name, path string) (*Network, error) {
	doc, err := atomicfile.Read(path, tomlfile.MaxSize)
	if err != nil {
		return nil, fault.New(fault.Config, "torrc: %w", err)
	}
	n, err := netfile.ImportTorrc(name, path, doc)
	if err != nil {
		return nil, err
	}
	return &Network{n}, nil
}

// Name returns the network's name, which can be used as a file name.
func (n *Network) Name() string { return n.dir.Name }

// MarshalText returns the network as a network file.
func (n *Network) MarshalText() ([]byte, error) { return netfile.Format(n.dir) }
