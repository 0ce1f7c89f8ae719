package stream

import (
	"net/netip"

	"github.com/chivenet/chive/internal/isolation"
)

// Request asks for a stream or a lookup. It is one value from the port that a program asks, or from a
// call of the public package, to the circuit: whoever knows something of it sets a field, and nobody
// else reads contexts.
type Request struct {
	Host   string        // a host name, or an address in text without brackets
	Port   uint16        // zero: a lookup
	Key    isolation.Key // which circuits it may use
	Family Family        // which addresses the exit may use for a host name; of a lookup: which are wanted
	Early  []byte        // the first bytes, sent with the request to connect; read only
	From   Origin        // who asks, for controllers only
	Permit Permit        // judges the host that Host stands for: only the client knows where MapAddress leads
}

// Permit judges a host that a stream or a lookup is to go to; nil permits all.
type Permit func(host string) error

// Check judges a host.
func (p Permit) Check(host string) error {
	if p == nil {
		return nil
	}
	return p(host)
}

// Origin is the program that asks for a stream, as far as its port knows. Only who controls the client
// may see it.
type Origin struct {
	Addr           netip.AddrPort // its end of the connection to the port; zero: unknown
	Protocol       string         // such as "socks5"; empty: a call of the program
	Port           string         // where it connected to; empty: unknown
	User, Password string         // what it told the port to keep its streams apart
	HasAuth        bool
}
