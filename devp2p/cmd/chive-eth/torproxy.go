package main

import (
	"errors"

	"github.com/chivenet/chive/devp2p"
)

// torProxy reaches onions by a Tor daemon.
func torProxy(addr string) (devp2p.Onions, error) {
	return nil, errors.New("--tor-proxy: this version reaches onions by the Tor client in it only")
}
