//go:build !linux

package socks

import (
	"net"
	"net/netip"
	"runtime"

	"github.com/chivenet/chive/internal/fault"
)

// canTrans reports whether there are transparent ports on this system.
func canTrans() error {
	return fault.New(fault.Config, "a transparent port needs Linux: %s has no REDIRECT and no TPROXY", runtime.GOOS)
}

// ListenTrans fails: only Linux says where a connection wanted to go.
func ListenTrans(string, bool) (net.Listener, error) { return nil, canTrans() }

func originalDst(net.Conn) (netip.AddrPort, error) { return netip.AddrPort{}, canTrans() }
