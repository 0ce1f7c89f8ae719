package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
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

// finding is where a relay or a sidecar finds nodes, besides its peers: flags.
type finding struct {
	trusting
	lists     []string // files and URLs
	trees     []string
	resolvers []string
	discv5    string // of a relay
}

func (s *finding) flags(cmd *cobra.Command) {
	s.trusting.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&s.lists, "nodes", nil, "a signed `LIST` of nodes to begin with (chive-eth nodes): a file, or a URL, which is read through Tor; --nodes-key says whose")
	f.StringArrayVar(&s.trees, "tree", nil, "`URL` of a signed list of nodes in DNS (EIP-1459): enrtree://KEY@DOMAIN; it is read through Tor, by DNS over HTTPS")
	f.StringArrayVar(&s.resolvers, "doh", nil, "`URL` of a resolver of DNS over HTTPS for --tree (default "+strings.Join(find.DefaultEndpoints, ", ")+")")
}

// flagsOutside is flags with what leaves Tor.
func (s *finding) flagsOutside(cmd *cobra.Command) {
	s.flags(cmd)
	cmd.Flags().StringVar(&s.discv5, "discv5", "", "find nodes by UDP outside Tor, too, at `IP:PORT` such as 0.0.0.0:30303; only-onion refuses this")
}

// nowhere reports whether the flags name no place to find nodes.
func (s *finding) nowhere() bool { return len(s.lists)+len(s.trees) == 0 && s.discv5 == "" }

// check refuses URLs that are wrong, before anything begins.
func (s *finding) check() error {
	for _, f := range []struct {
		name   string
		values []string
		check  func(string) error
	}{{"nodes", s.urls(), find.CheckList}, {"tree", s.trees, find.CheckTree}, {"doh", s.resolvers, find.CheckResolver}} {
		for _, v := range f.values {
			if err := f.check(v); err != nil {
				return fmt.Errorf("--%s: %w", f.name, err)
			}
		}
	}
	if len(s.resolvers) > 0 && len(s.trees) == 0 {
		return errors.New("--doh is about --tree, which is missing")
	}
	return nil
}

// urls are the lists that are no files.
func (s *finding) urls() []string {
	return slices.DeleteFunc(slices.Clone(s.lists), func(v string) bool { return !find.IsURL(v) })
}

// files returns the nodes of the lists that are files.
func (s *finding) files() ([]*enode.Node, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(s.lists) == 0 {
		return nil, nil
	}
	if _, err := s.trusted(); err != nil { // for the lists at URLs, too
		return nil, err
	}
	paths := slices.DeleteFunc(slices.Clone(s.lists), find.IsURL)
	lists, err := s.read(paths)
	if err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	var all []*enode.Node
	for _, l := range lists {
		all = append(all, l.Nodes...)
	}
	return all, nil
}

// inside returns what looks for nodes through Tor. dir keeps what must be known at the next start.
func (s *finding) inside(t *tor, policy devp2p.Policy, dir string, log *slog.Logger, sink find.Sink) ([]func(context.Context) error, error) {
	var all []func(context.Context) error
	if urls := s.urls(); len(urls) > 0 {
		client, err := t.web("--nodes")
		if err != nil {
			return nil, err
		}
		keys, err := s.trusted()
		if err != nil {
			return nil, err
		}
		newest, err := find.OpenNewest(dir)
		if err != nil {
			return nil, fmt.Errorf("--nodes: %w", err)
		}
		lists := find.Lists{URLs: urls, Client: client, Keys: keys, Newest: newest, Log: log}
		all = append(all, func(ctx context.Context) error { return lists.Run(ctx, sink) })
	}
	if len(s.trees) > 0 {
		client, err := t.web("--tree")
		if err != nil {
			return nil, err
		}
		trees := find.Trees{URLs: s.trees, Client: client, Endpoints: s.resolvers, OnionOnly: policy == devp2p.OnlyOnion, Log: log}
		all = append(all, func(ctx context.Context) error { return trees.Run(ctx, sink) })
	}
	return all, nil
}

// services returns what looks for nodes while a relay runs.
func (s *finding) services(t *tor, policy devp2p.Policy, dir string, key *ecdsa.PrivateKey, boot []*enode.Node, m *peers.Manager, log *slog.Logger) ([]func(context.Context) error, error) {
	all, err := s.inside(t, policy, dir, log, m.Add)
	if err != nil {
		return nil, err
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

// web returns an HTTP client whose connections go through Tor, for a flag. open was called before.
func (s *tor) web(flag string) (*http.Client, error) {
	switch {
	case s.client != nil:
		return s.client.HTTPClient(), nil
	case s.proxy == "":
		return nil, fmt.Errorf("%s is read through Tor, which policy clearnet does not use", flag)
	case strings.HasPrefix(s.proxy, "unix:"):
		return nil, fmt.Errorf("%s needs a SOCKS port with an address: --tor-proxy has a Unix socket", flag)
	}
	// "socks5h": the daemon looks names up. A user name of its own isolates these streams.
	at := &url.URL{Scheme: "socks5h", Host: s.proxy, User: url.UserPassword("chive-eth", strings.TrimPrefix(flag, "--"))}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at), ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20}}, nil
}
