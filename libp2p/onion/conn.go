package onion

import (
	"net"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// conn is a connection over a circuit, before libp2p has upgraded it.
type conn struct {
	net.Conn
	local, remote ma.Multiaddr
}

var _ manet.Conn = (*conn)(nil)

func (c *conn) LocalMultiaddr() ma.Multiaddr  { return c.local }
func (c *conn) RemoteMultiaddr() ma.Multiaddr { return c.remote }
