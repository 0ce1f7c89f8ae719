package fte

import "sync/atomic"

// Stats counts what a Listener or a Proxy does. The zero value is ready; read
// it at any time.
type Stats struct {
	Accepted   atomic.Uint64 // connections that came in
	Opened     atomic.Uint64 // handshakes that succeeded
	Failed     atomic.Uint64 // handshakes that failed: probes, replays, clients without the certificate
	Evicted    atomic.Uint64 // handshakes, connections and requests closed to make room: beyond a bound on their number or on memory
	Decoyed    atomic.Uint64 // failed handshakes handed to the decoy
	DialFailed atomic.Uint64 // connections whose other side couldn't be reached
	Broken     atomic.Uint64 // open connections that ended with an error
	Pending    atomic.Int64  // handshakes under way, and failed ones that the listener still holds open
	Active     atomic.Int64  // open connections
	SentBytes  atomic.Uint64 // payload bytes sent in the format
	RecvBytes  atomic.Uint64 // payload bytes received in the format
}
