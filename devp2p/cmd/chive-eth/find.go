package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/find"
	"github.com/chivenet/chive/devp2p/internal/peers"
)

// finding is where a relay finds nodes, besides its peers: flags.
type finding struct {
	trees     []string
	resolvers []string
	discv5    string
}

func (s *finding) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.trees, "tree", nil, "`URL` of a signed list of nodes in DNS (EIP-1459): enrtree://KEY@DOMAIN; it is read through Tor, by DNS over HTTPS")
	f.StringArrayVar(&s.resolvers, "doh", nil, "`URL` of a resolver of DNS over HTTPS for --tree (default "+strings.Join(find.DefaultEndpoints, ", ")+")")
	f.StringVar(&s.discv5, "discv5", "", "find nodes by UDP outside Tor, too, at `IP:PORT` such as 0.0.0.0:30303; only-onion refuses this")
}

// services returns what looks for nodes while the relay runs.
func (s *finding) services(t *tor, policy devp2p.Policy, key *ecdsa.PrivateKey, boot []*enode.Node, m *peers.Manager) ([]func(context.Context) error, error) {
	var all []func(context.Context) error
	if len(s.trees) > 0 {
		client, err := t.web()
		if err != nil {
			return nil, err
		}
		trees := find.Trees{URLs: s.trees, Client: client, Endpoints: s.resolvers, OnionOnly: policy == devp2p.OnlyOnion}
		all = append(all, func(ctx context.Context) error { return trees.Run(ctx, m.Add) })
	}
	if s.discv5 != "" {
		if !policy.AllowsClearnet() {
			return nil, errors.New("--discv5 sends UDP outside Tor, which policy only-onion forbids")
		}
		d := find.Discv5{Policy: policy, Key: key, Listen: s.discv5, Bootnodes: boot}
		all = append(all, func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			return d.Run(ctx, func(ln *enode.LocalNode) { wg.Go(func() { follow(ctx, ln, m) }) }, m.Add)
		})
	}
	return all, nil
}

// follow keeps what discv5 tells of this node as the manager's record has it: the onion,
// which may come later, the port and the chain.
func follow(ctx context.Context, ln *enode.LocalNode, m *peers.Manager) {
	seq := uint64(0)
	for {
		if n := m.Self(); n != nil && n.Seq() != seq {
			seq = n.Seq()
			var onion devp2p.Onion3
			if n.Load(&onion) == nil {
				ln.Set(onion)
			}
			var tcp enr.TCP
			if n.Load(&tcp) == nil {
				ln.Set(tcp)
			}
			var eth rlp.RawValue
			if n.Load(enr.WithEntry("eth", &eth)) == nil {
				ln.Set(enr.WithEntry("eth", eth))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second): // the manager tells nobody
		}
	}
}

// web returns an HTTP client whose connections go through Tor. open was called before.
func (s *tor) web() (*http.Client, error) {
	switch {
	case s.client != nil:
		return s.client.HTTPClient(), nil
	case s.proxy == "":
		return nil, errors.New("--tree is read through Tor, which policy clearnet does not use")
	case strings.HasPrefix(s.proxy, "unix:"):
		return nil, errors.New("--tree needs a SOCKS port with an address: --tor-proxy has a Unix socket")
	}
	// "socks5h": the daemon looks names up. A user name of its own isolates these streams.
	at := &url.URL{Scheme: "socks5h", Host: s.proxy, User: url.UserPassword("chive-eth", "tree")}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at), ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20}}, nil
}
