package layer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1"
	"crypto/sha3"
	"crypto/subtle"
	"encoding"
	"hash"
	"io"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// Offsets inside a version 0 relay message.
const (
	recognizedOff = 1
	digestOff     = 5
	digestLen     = 4
)

// tor1TagLen is the length of tor1's SENDME tags, in bytes. On the hop of an
// onion service, the tag is the first 20 of SHA3-256's 32 bytes.
const tor1TagLen = 20

// payloadStream is AES in counter mode over consecutive payloads, starting at
// counter 0.
type payloadStream interface {
	xor(p *[cell.PayloadLen]byte)
}

// libraryStream implements payloadStream with the standard library.
type libraryStream struct{ cipher.Stream }

func (s libraryStream) xor(p *[cell.PayloadLen]byte) { s.XORKeyStream(p[:], p[:]) }

func newLibraryStream(key []byte) (payloadStream, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var iv [aes.BlockSize]byte
	return libraryStream{cipher.NewCTR(block, iv[:])}, nil
}

// tor1 is one direction of one tor1 hop: a stream cipher over whole payloads,
// and a digest that runs over the messages of this hop only.
//
// The digest must be read after every message and then continue. Sum does that,
// because it finalises only a copy, which stays on the stack. The state is saved
// (5 ns) only to revert a message that seemed to be recognised but was not.
//
// A client with three hops needs 0.4 us for a cell. Nine tenths of that are SHA-1, the
// standard library's, which is as fast as the latency of the instructions allows.
type tor1 struct {
	stream payloadStream
	digest savedHash
	sum    [32]byte
}

// savedHash is a hash that can save its state.
type savedHash interface {
	hash.Hash
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

// states have room for a saved state, for a moment: a circuit at rest holds none.
var states = sync.Pool{New: func() any { return new([]byte) }}

func newTor1(newHash func() hash.Hash, seed, key []byte) (*tor1, error) {
	stream, err := newStream(key)
	if err != nil {
		return nil, err
	}
	h, ok := newHash().(savedHash)
	if !ok {
		return nil, fault.New(fault.Local, "tor1: the hash cannot save its state")
	}
	h.Write(seed)
	return &tor1{stream: stream, digest: h}, nil
}

// Originate seals a message of this end for the other end of the hop.
func (t *tor1) Originate(_ cell.Command, p *[cell.PayloadLen]byte) {
	clear(p[recognizedOff : recognizedOff+2])
	clear(p[digestOff : digestOff+digestLen])
	t.digest.Write(p[:])
	t.digest.Sum(t.sum[:0])
	copy(p[digestOff:], t.sum[:digestLen])
	t.stream.xor(p)
}

// Encrypt adds or removes this hop's layer on a message of another hop.
func (t *tor1) Encrypt(_ cell.Command, p *[cell.PayloadLen]byte) {
	t.stream.xor(p)
}

// Open removes this hop's layer and reports whether the message is for this
// end. The digest is computed only when the recognized field is zero.
func (t *tor1) Open(_ cell.Command, p *[cell.PayloadLen]byte) bool {
	t.stream.xor(p)
	if p[recognizedOff]|p[recognizedOff+1] != 0 {
		return false
	}
	saved := states.Get().(*[]byte)
	defer states.Put(saved)
	var err error
	if *saved, err = t.digest.AppendBinary((*saved)[:0]); err != nil {
		return false
	}
	claimed := [digestLen]byte(p[digestOff:])
	clear(p[digestOff : digestOff+digestLen])
	t.digest.Write(p[:])
	// Put the claimed digest back in both cases: a message that is not recognised
	// must be forwarded unchanged.
	copy(p[digestOff:], claimed[:])
	var sum [32]byte
	sum, t.sum = t.sum, sum
	t.digest.Sum(t.sum[:0])
	if subtle.ConstantTimeCompare(claimed[:], t.sum[:digestLen]) == 1 {
		return true
	}
	t.sum = sum
	if err := t.digest.UnmarshalBinary(*saved); err != nil {
		panic(err) // impossible: this code wrote the state
	}
	return false
}

// Tag returns the SENDME tag of the last message that was originated or
// recognised here; it is valid until the next one.
func (t *tor1) Tag() []byte { return t.sum[:tor1TagLen] }

// tor1Keys reads Df | Db | Kf | Kb and makes both directions.
func tor1Keys(ks io.Reader, newHash func() hash.Hash, seedLen, keyLen int) (f, b *tor1, err error) {
	k := make([]byte, 2*seedLen+2*keyLen)
	defer clear(k)
	if err := readKeys(ks, k); err != nil {
		return nil, nil, err
	}
	keys := k[2*seedLen:]
	if f, err = newTor1(newHash, k[:seedLen], keys[:keyLen]); err != nil {
		return nil, nil, err
	}
	b, err = newTor1(newHash, k[seedLen:2*seedLen], keys[keyLen:])
	return f, b, err
}

// tor1Hop reads an ordinary hop's keys and, after them, KH.
func tor1Hop(ks io.Reader) (f, b *tor1, kh [20]byte, err error) {
	if f, b, err = tor1Keys(ks, sha1.New, sha1.Size, 16); err != nil {
		return nil, nil, kh, err
	}
	return f, b, kh, readKeys(ks, kh[:])
}

// NewTor1Client reads the keys of the client's side of a tor1 hop: AES-128-CTR
// and SHA-1 (tor-spec, "Setting circuit keys").
func NewTor1Client(ks io.Reader) (*Client, error) {
	f, b, kh, err := tor1Hop(ks)
	if err != nil {
		return nil, err
	}
	return &Client{Forward: f, Backward: b, Format: cell.RelayV0, KH: kh}, nil
}

// NewTor1Relay reads the keys of the relay's side of a tor1 hop.
func NewTor1Relay(ks io.Reader) (*Relay, error) {
	f, b, kh, err := tor1Hop(ks)
	if err != nil {
		return nil, err
	}
	return &Relay{Forward: f, Backward: b, Format: cell.RelayV0, KH: kh}, nil
}

// NewTor1Rendezvous reads the keys of the virtual hop between an onion service
// and its client: AES-256-CTR and SHA3-256 (rend-spec, the section on the key
// expansion of the hs-ntor handshake). Both parties are clients of their own
// circuits; the service has the client's directions, reversed. There is no KH.
func NewTor1Rendezvous(ks io.Reader, service bool) (*Client, error) {
	f, b, err := tor1Keys(ks, func() hash.Hash { return sha3.New256() }, 32, 32)
	if err != nil {
		return nil, err
	}
	if service {
		f, b = b, f
	}
	return &Client{Forward: f, Backward: b, Format: cell.RelayV0}, nil
}
