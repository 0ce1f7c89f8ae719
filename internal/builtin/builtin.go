// Package builtin has Chive's own transports, chive and fte, for clients and bridges: package fte
// with the arguments of bridge lines. A node may have them inside, and
// Tor may launch them.
package builtin

import (
	"net"
	"slices"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/ptspec"
)

// Transport is one of the transports.
type Transport struct{ name string }

// Of returns the transport of a name.
func Of(name string) (Transport, bool) {
	return Transport{name}, slices.Contains(Names, name)
}

// Dialer returns the client's side for the arguments of one connection.
func (t Transport) Dialer(args ptspec.Args) (fte.Transport, error) { return kinds[t.name].client(args) }

// Listener returns l with the server's side, and the arguments that clients need. cfg has the
// bounds that the options do not set.
func (t Transport) Listener(l net.Listener, opts ptspec.Args, stateDir string, cfg fte.ListenConfig) (net.Listener, ptspec.Args, error) {
	set, opts, err := limits(opts)
	if err != nil {
		return nil, nil, err
	}
	if set.MaxConns > 0 {
		cfg.MaxConns = set.MaxConns
	}
	if set.MaxMemory > 0 {
		cfg.MaxMemory = set.MaxMemory
	}
	var tell ptspec.Args
	if cfg.Transport, tell, err = kinds[t.name].server(opts, stateDir); err != nil {
		return nil, nil, err
	}
	return fte.NewListener(l, cfg), tell, nil
}
