//go:build !linux

package outbound

import "syscall"

// Late is the Control of a net.Dialer with a source address. Only Linux lets the kernel choose
// the port later.
func Late(_, _ string, _ syscall.RawConn) error { return nil }
