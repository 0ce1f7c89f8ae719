//go:build !windows

package client

import "syscall"

// noRoutes are what the system says of an address of a family that it cannot reach.
var noRoutes = []error{syscall.ENETUNREACH, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT}
