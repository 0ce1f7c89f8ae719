//go:build !linux

package socks

import (
	"net"
	"testing"
)

// alive is only known on Linux.
func alive(*testing.T, net.Conn) bool { return false }
