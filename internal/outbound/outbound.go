// Package outbound connects from the addresses of this machine that its user wants (tor(1),
// "OutboundBindAddress").
package outbound

import (
	"log/slog"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/netaddr"
)

// Local returns the source address of a connection to another address, as a net.Dialer wants
// it; nil leaves the choice to the system.
func Local(s netaddr.Sources, to netip.Addr) net.Addr { return port(s.To(to)) }

func port(a netip.Addr) net.Addr {
	if !a.IsValid() {
		return nil
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
}

// Any returns the source address of a connection to a host that may be a name: package net then
// tries only addresses of its family, the first of which there is a source.
func Any(s netaddr.Sources) net.Addr {
	for _, a := range s.All() {
		return port(a)
	}
	return nil
}

// Warn logs which source addresses are not this machine's. As with C tor, that is no reason to
// end: it may get them later, when a network card comes up. Until then, connections fail.
func Warn(log *slog.Logger, all ...netaddr.Sources) {
	seen := map[netip.Addr]bool{}
	for _, s := range all {
		for _, a := range s.All() {
			if err := here(a); err != nil && !seen[a] {
				log.Warn("a source address of outbound-bind-address cannot be used: connections fail that should come from it", "err", err)
			}
			seen[a] = true
		}
	}
}

// here returns why connections cannot come from an address now.
func here(a netip.Addr) error {
	c, err := net.ListenPacket("udp", netip.AddrPortFrom(a, 0).String()) // nobody can connect to it meanwhile
	if err != nil {
		return err
	}
	return c.Close()
}
