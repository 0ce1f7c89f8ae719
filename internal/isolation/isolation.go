// Package isolation says which streams may share a circuit.
//
// Two streams on one circuit leave by the same exit at the same time, so the exit
// and the servers can link them. A Key has the properties of a stream by which
// circuits are kept apart. A listener makes the Key (or the public package, for a
// program's own calls), the pool compares it, and no code between them reads it.
//
// The rule is C tor's, of the options of SocksPort in tor(1), with one
// difference. C tor adds up what the streams of a circuit have in common, and
// each new stream's own flags decide whether it joins. Here a circuit belongs
// to the Key of its first stream, and streams with other flags do not join.
// That shares a little less, and never more.
//
//	tor(1)                 here
//	SessionGroup           Listener: the name of the listener, or of its group
//	IsolateSOCKSAuth       Auth: zero where user names and passwords do not isolate
//	KeepAliveIsolate-
//	SOCKSAuth              KeepAlive
//	IsolateClientAddr      ByClientAddr
//	IsolateClientProtocol  ByProtocol
//	IsolateDestAddr        ByDestAddr
//	IsolateDestPort        ByDestPort
//	ExitNodes {de}         Country, for one stream
//	SIGNAL NEWNYM          pool.NewIdentity, which retires circuits
package isolation

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// By says which fields of a Key keep streams apart, in addition to those that
// always do.
type By uint8

// The fields that a listener can choose.
const (
	ByClientAddr By = 1 << iota // the address of the local program
	ByProtocol                  // SOCKS 4, SOCKS 5, HTTP CONNECT, DNS
	ByDestAddr                  // the host that the stream goes to
	ByDestPort                  // the port that it goes to
)

// Key says which circuits a stream may use. The zero Key is that of a program's
// own calls without isolation. Keys are comparable: after Trim, equal Keys may
// share, and no others.
type Key struct {
	By       By
	Child    uint64 // the number of an isolated child of a client; zero: the client itself
	Listener string // the name of the listener or of its group; empty: a call of the program
	Auth     Auth
	Country  string // where the exit must be, such as "de"; empty: anywhere
	Stream   uint64 // of a stream that shares its circuit with no other; zero: it may
	// KeepAlive makes each stream with an Auth begin its circuit's time for new
	// streams again.
	KeepAlive bool
	Protocol  string     // such as "socks5"
	Client    netip.Addr // of the local program; zero over a unix socket
	Host      string     // the destination as it was asked for
	Port      uint16     // zero: a lookup
}

// Trim returns the key without the fields that By does not select, so that a
// circuit does not keep them.
func (k Key) Trim() Key {
	if k.By&ByClientAddr == 0 {
		k.Client = netip.Addr{}
	}
	if k.By&ByProtocol == 0 {
		k.Protocol = ""
	}
	if k.By&ByDestAddr == 0 {
		k.Host = ""
	}
	if k.By&ByDestPort == 0 {
		k.Port = 0
	}
	k.Client = k.Client.Unmap()
	k.KeepAlive = k.KeepAlive && k.Auth != Auth{}
	return k
}

// MayShare reports whether two streams with these keys may use one circuit.
func (k Key) MayShare(other Key) bool { return k.Trim() == other.Trim() }

// Format writes "[scrubbed]" for every verb: a key tells where a user goes.
func (Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[scrubbed]") }

// MarshalText returns "[scrubbed]", for logs and JSON.
func (Key) MarshalText() ([]byte, error) { return []byte("[scrubbed]"), nil }

// Auth stands for a user name and a password, or for what a program made up to
// tell its streams apart. The zero Auth stands for none.
type Auth [sha256.Size]byte

// secret makes an Auth useless outside this process.
var secret = func() (b [32]byte) { rand.Read(b[:]); return }()

// NewAuth returns a keyed digest of the fields, so that no secret is kept.
// Different fields, or the same bytes divided differently, give another Auth.
func NewAuth(fields ...string) (a Auth) {
	h := hmac.New(sha256.New, secret[:])
	for _, f := range fields {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f))))
		h.Write([]byte(f))
	}
	h.Sum(a[:0])
	return a
}
