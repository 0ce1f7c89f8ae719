//go:build !linux

package relay

import "net"

func tuneLink(net.Conn) {}

// fdLimit returns a cautious guess, because the limit is not known on this
// system.
func fdLimit() uint64 { return 4096 }
