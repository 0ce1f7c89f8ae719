package experiment

import (
	"context"
	"net/netip"
	"sync"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/lab"
)

// measuring is the name of the host that measures. It is no node of the laboratory's.
const measuring = "measuring"

// network is a network of Chive's in this process, each node behind a link of its own.
type network struct {
	*lab.Network
	net    *links.Net
	client *linkstack.Host // of who measures

	mu    sync.Mutex        // guards what follows
	hosts []*linkstack.Host // the n-th has the n-th address
}

// nodes says how many nodes a network has.
type nodes struct{ authorities, relays, exits int }

// startNetwork starts a network. access has the links of nodes by the names that package lab gives them, and of
// measuring; those that are not there have a link that takes no time.
func startNetwork(ctx context.Context, seed uint64, n nodes, access map[string]links.Access) (nw *network, err error) {
	nw = &network{net: links.NewNet(seed)}
	defer func() {
		if err != nil {
			nw.close()
		}
	}()
	if nw.client, err = nw.attach(access[measuring]); err != nil {
		return nil, err
	}
	nw.Network, err = lab.Start(ctx, lab.Options{
		Authorities: n.authorities, Relays: n.relays, Exits: n.exits, VotingInterval: rounds,
		Host: func(name string) (lab.Host, error) { return nw.attach(access[name]) },
	})
	return nw, err
}

// rounds are far apart: a round costs time that an experiment does not want to measure.
const rounds = 20 * 60 * 1e9

// attach makes the next host.
func (nw *network) attach(a links.Access) (*linkstack.Host, error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	i := len(nw.hosts) + 1
	h, err := linkstack.Attach(nw.net, netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), a)
	if err == nil {
		nw.hosts = append(nw.hosts, h)
	}
	return h, err
}

// directory reads the network's file.
func (nw *network) directory() (*netdir.Network, error) {
	text, err := readFile(nw.NetworkFile)
	if err != nil {
		return nil, err
	}
	return netfile.Parse(nw.NetworkFile, text)
}

// path returns the identities of nodes.
func (nw *network) path(names []string) ([]ident.RSAID, error) {
	var out []ident.RSAID
	for _, name := range names {
		n := nw.Node(name)
		if n == nil {
			return nil, fault.New(fault.Config, "the network has no node %q", name)
		}
		id, err := ident.ParseRSAID(n.Fingerprint)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// close ends everything.
func (nw *network) close() error {
	var err error
	if nw.Network != nil {
		err = nw.Network.Close()
	}
	nw.mu.Lock()
	defer nw.mu.Unlock()
	for _, h := range nw.hosts {
		h.Close()
	}
	nw.hosts = nil
	nw.net.Close()
	return err
}
