//go:build !linux

package socks

import "net"

// private opens sockets. Other users may reach them until their mode is set, if they can reach
// the directory.
var private net.ListenConfig

// shortUnix returns the path as it is: the system says whether it is too long.
func shortUnix(path string) (short string, release func(), err error) {
	return path, func() {}, nil
}
