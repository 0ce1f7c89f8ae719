//go:build !linux

package channel

import "net"

// quickACK does nothing: the kernel has no such hint.
func quickACK(net.Conn) func() { return func() {} }
