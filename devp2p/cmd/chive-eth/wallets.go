package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/spf13/cobra"
	"golang.org/x/net/proxy"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p/internal/reads"
	"github.com/chivenet/chive/devp2p/internal/rpcserver"
	"github.com/chivenet/chive/devp2p/internal/torctl"
	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/commandline"
)

// Values of --rpc-proofs.
const (
	proofsAuto    = "auto"
	proofsRequire = "require"
)

// wallets is how a relay answers wallets: flags.
type wallets struct {
	rpc          string
	upstream     string
	upstreamFile string
	proofs       string
	origins      []string

	address *reads.Address // of upstream, after check; nil: none
	roots   *x509.CertPool // nil: the system's; tests have others
}

func (s *wallets) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.rpc, "rpc", "", "answer wallets by JSON-RPC at an `ADDR` of loopback, such as 127.0.0.1:8545")
	f.StringVar(&s.upstream, "rpc-upstream", "", "the `NODE` that is asked what wallets want to know of the chain: an https URL or an onion's URL, through Tor, or the IPC socket of a node on this machine")
	f.StringVar(&s.upstreamFile, "rpc-upstream-file", "", "a `FILE` whose one line is the value of --rpc-upstream: a URL on the command line, and a key in it, is visible to other users of the machine")
	f.Var(commandline.Word(&s.proofs, []string{proofsAuto, proofsRequire}), "rpc-proofs", "`PROOFS` of nonces and balances: auto checks those that --rpc-upstream has, require refuses answers without one (default auto)")
	f.StringArrayVar(&s.origins, "rpc-origin", nil, "an `ORIGIN` of a browser extension that may use --rpc, such as chrome-extension://ID (can be given several times)")
}

// check reads the flags' values.
func (s *wallets) check() error {
	if s.rpc == "" {
		for _, f := range []struct {
			name string
			set  bool
		}{{"rpc-upstream", s.upstream != ""}, {"rpc-upstream-file", s.upstreamFile != ""}, {"rpc-proofs", s.proofs != ""}, {"rpc-origin", len(s.origins) > 0}} {
			if f.set {
				return fmt.Errorf("--%s is about --rpc, which is missing", f.name)
			}
		}
	}
	if s.proofs == proofsRequire && s.upstream == "" && s.upstreamFile == "" {
		return errors.New("--rpc-proofs require is about --rpc-upstream, which is missing")
	}
	for _, o := range s.origins {
		if err := program.CheckExtension(o); err != nil {
			return fmt.Errorf("--rpc-origin: %w", err)
		}
	}
	address, err := s.readUpstream()
	if err != nil {
		return fmt.Errorf("--%s: %w", s.upstreamFlag(), err)
	}
	s.address = address
	return nil
}

// serve opens the port for wallets, and returns its service.
func (s *wallets) serve(t *tor, r *relay, log *slog.Logger, out io.Writer) (func(context.Context) error, error) {
	config := reads.Config{Upstream: s.address, Require: s.proofs == proofsRequire, Roots: s.roots}
	if s.address != nil && !s.address.Local() {
		var err error
		if config.Dial, err = t.exits(); err != nil {
			return nil, fmt.Errorf("--%s: %w", s.upstreamFlag(), err)
		}
	}
	l, err := program.ListenLoopback(s.rpc)
	if err != nil {
		return nil, fmt.Errorf("--rpc: %w", err)
	}
	r.rpc = l.Addr().String()
	all := rpcserver.Methods(r)
	read, closeAll := reads.Methods(r, config)
	for name, method := range read {
		all[name] = method
	}
	server := &rpcserver.Server{Methods: all, Log: log, Origins: s.origins}
	fmt.Fprintf(out, "Wallets can use http://%s\n", l.Addr())
	return func(ctx context.Context) error {
		defer closeAll()
		return server.Serve(ctx, l)
	}, nil
}

// exits returns what connects to hosts and onions through Tor. open was called before.
func (s *tor) exits() (reads.Dialer, error) {
	switch {
	case s.client != nil:
		return func(ctx context.Context, addr, isolation string) (net.Conn, error) {
			return s.client.DialContext(chive.WithIsolation(ctx, isolation), "tcp", addr)
		}, nil
	case s.proxy == "":
		return nil, errors.New("a node elsewhere is asked through Tor, which policy clearnet does not use: give the IPC socket of a node on this machine, or another --policy")
	}
	network, at := torctl.Split(s.proxy)
	return func(ctx context.Context, addr, isolation string) (net.Conn, error) {
		// A digest: the key may be longer than SOCKS allows, and the daemon need not know it.
		sum := sha256.Sum256([]byte(isolation))
		d, err := proxy.SOCKS5(network, at, &proxy.Auth{User: "rpc-upstream", Password: hex.EncodeToString(sum[:])}, nil)
		if err != nil {
			return nil, fmt.Errorf("SOCKS: %w", err)
		}
		c, err := d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the address
		}
		if err != nil {
			return nil, fmt.Errorf("the Tor daemon (--tor-proxy): %w", err)
		}
		return c, nil
	}, nil
}

// The methods of reads.Node, beside those of rpcserver.Node.

func (r *relay) Agreed(ctx context.Context) ([]*types.Header, int, error) { return r.node.Agreed(ctx) }

func (r *relay) Own(h common.Hash) (tx *types.Transaction, from common.Address, state, why string, ok bool) {
	tx, from, s, ok := r.queue.Own(h)
	return tx, from, string(s.State), s.Why, ok
}

func (r *relay) Next(from common.Address, n uint64) uint64 { return r.queue.Next(from, n) }
