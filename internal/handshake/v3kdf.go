package handshake

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha3"
	"encoding/binary"
	"io"

	"github.com/chivenet/chive/internal/ident"
)

// This file is the key schedule that ntor-v3 and the hybrid share: the same
// steps with another PROTOID and, in the hybrid, three more inputs.

// encap writes ENCAP(s) = htonll(len(s)) | s to h.
func encap(h io.Writer, s ...string) {
	n := 0
	for _, p := range s {
		n += len(p)
	}
	var l [8]byte
	binary.BigEndian.PutUint64(l[:], uint64(n))
	h.Write(l[:])
	for _, p := range s {
		io.WriteString(h, p)
	}
}

// encapBytes is encap for a byte string.
func encapBytes(h io.Writer, b []byte) {
	var l [8]byte
	binary.BigEndian.PutUint64(l[:], uint64(len(b)))
	h.Write(l[:])
	h.Write(b)
}

// phase1 holds the keys of the client's encrypted message and the public
// values that its MAC covers.
type phase1 struct {
	proto    string
	enc      [32]byte
	macKey   [32]byte
	id, b, x []byte
	ek       []byte // ML-KEM encapsulation key; nil for ntor-v3
}

func v3Phase1(proto string, xb *[32]byte, id *ident.Ed25519ID, b, x *ident.X25519Key, ek, ver []byte) *phase1 {
	h := sha3.NewSHAKE256()
	encap(h, proto, ":kdf_phase1")
	h.Write(xb[:])
	h.Write(id[:])
	h.Write(x[:])
	h.Write(b[:])
	io.WriteString(h, proto)
	encapBytes(h, ver)
	p := &phase1{proto: proto, id: id[:], b: b[:], x: x[:], ek: ek}
	h.Read(p.enc[:])
	h.Read(p.macKey[:])
	return p
}

// seal appends the message encrypted, or decrypted: the two are one.
func (p *phase1) seal(dst, msg []byte) []byte { return xorAES256(dst, &p.enc, msg) }

// mac returns the MAC over the public values and the encrypted message.
func (p *phase1) mac(encrypted []byte) (out [32]byte) {
	h := sha3.New256()
	encap(h, p.proto, ":msg_mac")
	encapBytes(h, p.macKey[:])
	h.Write(p.id)
	h.Write(p.b)
	h.Write(p.x)
	h.Write(p.ek)
	h.Write(encrypted)
	h.Sum(out[:0])
	return out
}

// phase2 holds what follows from the whole secret input.
type phase2 struct {
	proto       string
	verify      [32]byte
	enc         [32]byte
	ks          v3Stream
	id, b, x, y []byte
}

// v3Finish derives the final keys. ss is the ML-KEM shared secret, ek and ct
// its public values; all three are nil for ntor-v3.
func v3Finish(proto string, ver []byte, xy, xb *[32]byte, ss []byte, id *ident.Ed25519ID, b, x, y *ident.X25519Key, ek, ct []byte) *phase2 {
	secretInput := func(h io.Writer) {
		h.Write(xy[:])
		h.Write(xb[:])
		h.Write(ss)
		h.Write(id[:])
		h.Write(b[:])
		h.Write(x[:])
		h.Write(y[:])
		h.Write(ek)
		h.Write(ct)
		io.WriteString(h, proto)
		encapBytes(h, ver)
	}
	p := &phase2{proto: proto, id: id[:], b: b[:], x: x[:], y: y[:]}
	h := sha3.New256()
	encap(h, proto, ":key_seed")
	secretInput(h)
	h.Sum(p.ks.seed[:0])
	h.Reset()
	encap(h, proto, ":verify")
	secretInput(h)
	h.Sum(p.verify[:0])

	p.ks.proto = proto
	p.ks.xof = sha3.NewSHAKE256()
	encap(p.ks.xof, proto, ":kdf_final")
	p.ks.xof.Write(p.ks.seed[:])
	p.ks.xof.Read(p.enc[:])
	return p
}

// seal appends the relay's message encrypted and returns the rest of the key
// stream.
func (p *phase2) seal(dst, msg []byte) ([]byte, KeyStream) {
	return xorAES256(dst, &p.enc, msg), &p.ks
}

// open decrypts the relay's message.
func (p *phase2) open(encrypted []byte) ([]byte, KeyStream) {
	return xorAES256(nil, &p.enc, encrypted), &p.ks
}

// auth returns AUTH over the whole transcript: verify stands for the secret
// input, with EK and CT in the hybrid, and mac is the client's MAC.
func (p *phase2) auth(mac *[32]byte, encrypted []byte) (out [32]byte) {
	h := sha3.New256()
	encap(h, p.proto, ":auth_final")
	h.Write(p.verify[:])
	h.Write(p.id)
	h.Write(p.b)
	h.Write(p.y)
	h.Write(p.x)
	h.Write(mac[:])
	encapBytes(h, encrypted)
	io.WriteString(h, p.proto)
	io.WriteString(h, "Server")
	h.Sum(out[:0])
	return out
}

// v3Stream is the key stream of ntor-v3 and of the hybrid.
type v3Stream struct {
	proto string
	seed  [32]byte
	xof   *sha3.SHAKE
}

func (s *v3Stream) Read(p []byte) (int, error) { return s.xof.Read(p) }

// Export implements Exporter: a second expansion of the key seed, apart from
// the layer keys by its tweak.
func (s *v3Stream) Export(label string) (out [32]byte) {
	h := sha3.NewSHAKE256()
	encap(h, s.proto, ":export")
	h.Write(s.seed[:])
	encap(h, label)
	h.Read(out[:])
	return out
}

// xorAES256 appends msg xored with AES-256-CTR's stream from a zero counter,
// as the specification's ENC and DEC do; each key serves one message.
func xorAES256(dst []byte, key *[32]byte, msg []byte) []byte {
	c, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes is a key length
	}
	n := len(dst)
	dst = append(dst, msg...)
	var iv [16]byte
	cipher.NewCTR(c, iv[:]).XORKeyStream(dst[n:], dst[n:])
	return dst
}
