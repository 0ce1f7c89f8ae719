package handshake

import (
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// Kinds is the table of the handshakes that make a hop of a circuit. The order
// is that of preference: see Best. (hs-ntor is not here: no cell carries it
// alone. It makes its hop by INTRODUCE1 and RENDEZVOUS2.)
var Kinds = []*Kind{
	NtorV3,
	Ntor,
	Fast,
	pqKind(PQ768),
	pqKind(PQ512),
	pqKind(PQ1024),
}

// Kind is one handshake: how it travels, what it needs, and both its halves.
type Kind struct {
	Type cell.HandshakeType
	Name string     // as status pages and tools say it
	Form *cell.Form // the cells and messages that carry it
	// Default: a client uses it without being told to.
	Default bool
	// Extensions: each half carries a list of extensions (cell.Ext) to the other.
	Extensions bool
	// Set is the ML-KEM parameter set that protects the hop; zero: none does.
	Set PQSet
	// Proto and Version are the subprotocol version that a relay advertises when
	// it speaks this handshake; without Proto, every relay speaks it.
	Proto   string
	Version int
	// SkinLen and AnswerLen are the lengths of the onionskin and of the relay's
	// answer, without extensions, in bytes.
	SkinLen, AnswerLen int
	// Cost says with which others an onionskin waits at a relay.
	Cost Cost

	byEd  bool // the client must know the relay's Ed25519 identity
	start func(rand io.Reader, t *linkspec.Target, exts []byte) (Client, []byte, error)
	serve func(rand io.Reader, r *Relay, skin []byte, answer func(exts []byte) ([]byte, error)) ([]byte, KeyStream, error)
}

// Cost is the dearest part of a relay's answer.
type Cost uint8

// The costs, the cheapest first.
const (
	CostHash   Cost = iota // some hashes: cheaper than a queue
	CostX25519             // about 100 us
	CostMLKEM              // X25519 and ML-KEM
)

// Client is a client's half of a handshake, between its onionskin and the
// relay's answer.
type Client interface {
	// Prepare does the part of Finish that needs no answer, and which Finish does
	// otherwise: for the time until the answer comes.
	Prepare()
	// Finish checks the relay's answer, and wipes the state. exts is the relay's
	// list of extensions; nil from a kind without Extensions. The key stream is an
	// Exporter as well if the hop can be rekeyed.
	Finish(answer []byte) (exts []byte, ks KeyStream, err error)
	// Wipe forgets the secrets of a handshake that nobody will finish.
	Wipe()
}

// Relay is what a relay answers handshakes with.
type Relay struct {
	ID    ident.RelayID
	Onion []*NtorKeyPair // the onion keys that are good now, the newest first
	// PQ is what the relay has advertised of ProtoName lately, the likeliest
	// first: as "1-3,8".
	PQ []string
}

// Start starts the handshake with a relay. exts is the client's list of
// extensions, which a kind without Extensions does not send. The onionskin is
// what the kind's Form carries to the relay.
func (k *Kind) Start(rand io.Reader, t *linkspec.Target, exts []byte) (c Client, onionskin []byte, err error) {
	if c, onionskin, err = k.start(rand, t, exts); err != nil {
		return nil, nil, err
	}
	return c, onionskin, nil
}

// Serve answers an onionskin. A kind with Extensions calls answer once it has
// authenticated the client's list, and sends the list that answer returns.
func (k *Kind) Serve(rand io.Reader, r *Relay, onionskin []byte, answer func(exts []byte) ([]byte, error)) (created []byte, ks KeyStream, err error) {
	return k.serve(rand, r, onionskin, answer)
}

// SpokenBy reports whether a relay speaks the handshake, by what its signed
// documents say, and whether they say all that a client needs for it.
func (k *Kind) SpokenBy(t *linkspec.Target) bool {
	return (k.Proto == "" || t.Proto.Has(k.Proto, k.Version)) && (!k.byEd || !t.Ed.IsZero())
}

// Best returns the default handshake that comes first among those that a relay
// speaks.
func Best(t *linkspec.Target) *Kind {
	for _, k := range Kinds {
		if k.Default && k.SpokenBy(t) {
			return k
		}
	}
	return nil
}

// OfType returns the handshake with the given number, or nil.
func OfType(t cell.HandshakeType) *Kind {
	for _, k := range Kinds {
		if k.Type == t {
			return k
		}
	}
	return nil
}

// Named returns the handshake with the given name, or nil.
func Named(name string) *Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}
