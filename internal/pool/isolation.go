package pool

import (
	"log/slog"
	"net/netip"
)

// Isolate says which differences between two streams keep them from sharing a
// circuit. Streams of different listeners never share one.
type Isolate uint8

// What isolates.
const (
	ByAuth       Isolate = 1 << iota // SOCKS user name and password
	ByClientAddr                     // the address that the stream came from
	ByDestAddr                       // the host that it goes to
	ByDestPort                       // the port that it goes to
	ByProtocol                       // SOCKS 4, SOCKS 5, HTTP CONNECT, DNS
)

// DefaultIsolate is what C tor isolates by when it is not configured.
const DefaultIsolate = ByAuth | ByClientAddr | ByProtocol

// Origin is where a stream comes from and where it goes to.
type Origin struct {
	Listener   string     // the door it came through; empty for calls of the library
	Protocol   string     // such as "socks5"
	Client     netip.Addr // zero for calls of the library
	User, Pass string     // as bytes; a method without credentials has none
	DestHost   string     // host name or address, as it was asked for
	DestPort   uint16
	// Token tells apart the isolated children of a client; zero is none.
	Token uint64
	// Key is what the caller made up to tell its calls apart.
	Key string
}

// Key is what must be equal for two streams to share a circuit.
type Key struct {
	by     Isolate
	origin Origin
}

// Key returns the isolation key of a stream.
func (by Isolate) Key(o Origin) Key {
	if by&ByAuth == 0 {
		o.User, o.Pass = "", ""
	}
	if by&ByClientAddr == 0 {
		o.Client = netip.Addr{}
	}
	if by&ByDestAddr == 0 {
		o.DestHost = ""
	}
	if by&ByDestPort == 0 {
		o.DestPort = 0
	}
	if by&ByProtocol == 0 {
		o.Protocol = ""
	}
	o.Client = o.Client.Unmap()
	return Key{by, o}
}

// String returns "[scrubbed]": a key holds credentials and addresses.
func (Key) String() string { return "[scrubbed]" }

// LogValue returns "[scrubbed]".
func (Key) LogValue() slog.Value { return slog.StringValue("[scrubbed]") }
