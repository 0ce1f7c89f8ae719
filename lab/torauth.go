package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/netdir"
)

// FindTor returns the path of the program that runs C tor's nodes: tor, or, if it is empty, the program that
// the environment variable CHIVE_TOR names, or "tor" in PATH. It is an error if that, or tor-gencert, is missing.
func FindTor(tor string) (string, error) {
	path, _, err := ctor.Find(tor)
	return path, err
}

// startTor makes a network with authorities and other nodes of C tor, and with
// Chive's relays.
func (nw *Network) startTor(ctx context.Context) error {
	opts := ctor.Options{
		VotingInterval: nw.opts.VotingInterval, ValidIntervals: intervalsValid,
		Authorities: nw.opts.Authorities, Relays: none(nw.opts.CtorRelays), Exits: none(nw.opts.CtorExits), Clients: nw.opts.CtorClients,
		Dir: filepath.Join(nw.Dir, "tor"), TorPath: nw.opts.Tor, Nameserver: nw.target.Nameserver(), Log: nw.opts.Log,
		Extra: map[string][]string{"*": nw.opts.CtorTorrc},
		Guests: func(ctx context.Context, tor *ctor.Network) ([]ctor.Guest, error) {
			text, err := tor.NetworkFile()
			if err != nil {
				return nil, err
			}
			if err := nw.describe(text); err != nil {
				return nil, err
			}
			if err := nw.startRelays(ctx); err != nil {
				return nil, err
			}
			var guests []ctor.Guest
			for _, n := range nw.relays() {
				guests = append(guests, ctor.Guest{Nickname: n.Name, RSA: n.rsa})
			}
			return guests, nil
		},
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return local(err)
	}
	tor, err := ctor.Start(ctx, opts)
	if err != nil {
		return err
	}
	nw.adopt(tor)
	nw.tor = tor
	return nil
}

// measured gives an added relay the bandwidth that the others have, if C tor's
// authorities vote on it.
func (nw *Network) measured(n *Node) error {
	if nw.tor == nil {
		return nil
	}
	return nw.tor.Welcome(ctor.Guest{Nickname: n.Name, RSA: n.rsa})
}

// addTor runs C tor's relays and clients under Chive's authorities.
func (nw *Network) addTor(ctx context.Context, d *netdir.Network) error {
	opts := ctor.Options{
		DirAuthorities: []string{}, Relays: none(nw.opts.CtorRelays), Exits: none(nw.opts.CtorExits), Clients: nw.opts.CtorClients,
		Dir: filepath.Join(nw.Dir, "tor"), TorPath: nw.opts.Tor, Nameserver: nw.target.Nameserver(), Log: nw.opts.Log,
		Extra: map[string][]string{"*": nw.opts.CtorTorrc},
	}
	for _, a := range d.Authorities {
		opts.DirAuthorities = append(opts.DirAuthorities, fmt.Sprintf("%s orport=%d no-v2 v3ident=%s %s %s",
			a.Nickname, a.ORPorts[0].Port(), a.V3Ident, a.DirPort, a.RSA))
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return local(err)
	}
	tor, err := ctor.Start(ctx, opts)
	if err != nil {
		return err
	}
	nw.adopt(tor)
	return nil
}

// none returns n in the form of package ctor, which has another value for no
// nodes.
func none(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// adopt adds C tor's nodes to this network, before all others.
func (nw *Network) adopt(tor *ctor.Network) {
	nw.onClose(tor.Close)
	var nodes []*Node
	for _, t := range tor.Nodes {
		n := &Node{Name: t.Name, Role: map[ctor.Role]Role{ctor.Authority: Authority, ctor.Relay: Relay, ctor.Exit: Exit, ctor.Client: Client}[t.Role],
			Program: "tor", Control: t.ControlAddr.String(), network: nw, pid: t.PID}
		if t.Role == ctor.Client {
			n.SOCKS = t.SOCKS.String()
		} else {
			n.Fingerprint, n.ORPort, n.rsa = t.ID.RSA.String(), t.OR.String(), t.ID.RSA
		}
		nodes = append(nodes, n)
	}
	nw.enlistFirst(nodes...)
}
