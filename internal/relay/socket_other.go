//go:build !linux

package relay

import "net"

func tuneLink(*net.TCPConn) {}

// fdLimit is a cautious guess where the limit is not known.
func fdLimit() uint64 { return 4096 }
