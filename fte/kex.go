package fte

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/mlkem"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/chivenet/chive/fte/internal/elligator"
	"github.com/chivenet/chive/internal/fault"
)

// The key exchange of Chive's protocol (docs/spec/fte.md, "Key exchange"): the pattern
// NKpsk0 of the Noise framework with Elligator representatives for the ephemeral keys,
// and ML-KEM-768 if the client asks for it. This file maps bytes to bytes; the carrier
// puts them into the format.
const (
	kexName = "chive-fte-1 NKpsk0 X25519+Elligator2 ML-KEM-768 ChaCha20-Poly1305 SHA-256"

	kexTag          = chacha20poly1305.Overhead
	clientFixed     = 8                                     // flags, zero, body length, time
	serverFixed     = 4                                     // body length, zero
	clientHelloHead = elligator.Size + clientFixed + kexTag // bytes that tell how long a client hello is
	serverHelloHead = elligator.Size + serverFixed + kexTag
	maxHelloBody    = 4096
	// maxHelloText bounds the text of a hello; the poorest format of fteproxy
	// takes nine bytes for one.
	maxHelloText = 64 << 10
)

// Flags of a client hello.
const (
	flagHybrid = 1 << iota // the body holds an ML-KEM-768 encapsulation key
	flagChaCha             // records use ChaCha20-Poly1305 instead of AES-256-GCM
	knownFlags = 1<<iota - 1
)

// transcript is the chaining key and the hash of the exchange so far.
type transcript struct {
	ck, h [sha256.Size]byte
}

func newTranscript(server *ecdh.PublicKey, secret *[secretLen]byte, prologue []byte) *transcript {
	t := &transcript{}
	t.h = sha256.Sum256([]byte(kexName))
	t.ck = t.h
	t.mixHash(prologue)
	t.mixHash(server.Bytes())
	t.mixKey(secret[:])
	return t
}

func (t *transcript) mixHash(b []byte) {
	d := sha256.New()
	d.Write(t.h[:])
	d.Write(b)
	d.Sum(t.h[:0])
}

// mixKey mixes a secret into the chaining key and returns an AEAD key.
func (t *transcript) mixKey(secret []byte) (k [32]byte) {
	prk, err := hkdf.Extract(sha256.New, secret, t.ck[:])
	if err != nil {
		panic(err) // only for a key that FIPS mode calls too short
	}
	out := expand(prk, "chain", 64)
	copy(t.ck[:], out)
	copy(k[:], out[32:])
	return k
}

func expand(prk []byte, label string, n int) []byte {
	out, err := hkdf.Expand(sha256.New, prk, label, n)
	if err != nil {
		panic(err) // n is a small constant
	}
	return out
}

// box is one AEAD key of the exchange; its nonces count from 0.
type box struct {
	a cipher.AEAD
	n uint64
}

func newBox(k [32]byte) *box {
	a, err := chacha20poly1305.New(k[:])
	if err != nil {
		panic(err) // the length is fixed
	}
	return &box{a: a}
}

func (b *box) nonce() []byte {
	var n [chacha20poly1305.NonceSize]byte
	binary.LittleEndian.PutUint64(n[4:], b.n)
	b.n++
	return n[:]
}

// seal appends p, encrypted, to dst, and mixes it into the transcript.
func (t *transcript) seal(b *box, dst, p []byte) []byte {
	at := len(dst)
	dst = b.a.Seal(dst, b.nonce(), p, t.h[:])
	t.mixHash(dst[at:])
	return dst
}

// open decrypts c, and mixes it into the transcript.
func (t *transcript) open(b *box, c []byte) ([]byte, error) {
	p, err := b.a.Open(nil, b.nonce(), c, t.h[:])
	if err != nil {
		return nil, err
	}
	t.mixHash(c)
	return p, nil
}

// secrets are the results of a finished exchange.
type secrets struct {
	flags              byte
	toServer, toClient [32]byte
}

func (t *transcript) finish(flags byte) secrets {
	s := secrets{flags: flags}
	copy(s.toServer[:], expand(t.ck[:], "client to server", 32))
	copy(s.toClient[:], expand(t.ck[:], "server to client", 32))
	return s
}

// errStranger is the error for every client hello that is not accepted.
var errStranger = fault.New(fault.Refused, "the peer did not prove that it knows the certificate")

// clientKex is a client's exchange under way.
type clientKex struct {
	t     *transcript
	priv  *ecdh.PrivateKey
	dk    *mlkem.DecapsulationKey768
	flags byte
	b     *box
	body  int
}

// newClientKex starts an exchange and returns the hello, with pad bytes of padding.
func newClientKex(rand io.Reader, cert *Cert, prologue []byte, flags byte, pad int, now time.Time) (*clientKex, []byte, error) {
	priv, rep, err := elligator.Generate(rand)
	if err != nil {
		return nil, nil, fault.New(fault.Local, "reading randomness for an ephemeral key: %w", err)
	}
	k := &clientKex{t: newTranscript(cert.pub, &cert.secret, prologue), flags: flags}
	if k.priv, err = ecdh.X25519().NewPrivateKey(priv[:]); err != nil {
		return nil, nil, fault.New(fault.Local, "an ephemeral key: %w", err)
	}
	es, err := k.priv.ECDH(cert.pub)
	if err != nil {
		return nil, nil, fault.New(fault.Config, "the certificate's key can't be used: %w", err)
	}
	k.t.mixHash(rep[:])
	b := newBox(k.t.mixKey(es))
	var body []byte
	if flags&flagHybrid != 0 {
		if k.dk, err = mlkem.GenerateKey768(); err != nil {
			return nil, nil, fault.New(fault.Local, "reading randomness for an ML-KEM key: %w", err)
		}
		body = k.dk.EncapsulationKey().Bytes()
	}
	body = append(body, make([]byte, min(pad, maxHelloBody-kexTag-len(body)))...)
	var fixed [clientFixed]byte
	fixed[0] = flags
	binary.BigEndian.PutUint16(fixed[2:], uint16(len(body)+kexTag))
	binary.BigEndian.PutUint32(fixed[4:], uint32(now.Unix()))
	hello := k.t.seal(b, rep[:], fixed[:])
	return k, k.t.seal(b, hello, body), nil
}

// head reads the first serverHelloHead bytes of the answer and returns how many bytes
// follow.
func (k *clientKex) head(b []byte) (int, error) {
	rep := [elligator.Size]byte(b)
	pub := elligator.Decode(&rep)
	peer, err := ecdh.X25519().NewPublicKey(pub[:])
	if err != nil {
		return 0, fault.New(fault.Protocol, "the server's ephemeral key: %w", err)
	}
	ee, err := k.priv.ECDH(peer)
	if err != nil {
		return 0, fault.New(fault.Protocol, "the server's ephemeral key: %w", err)
	}
	k.t.mixHash(rep[:])
	k.b = newBox(k.t.mixKey(ee))
	fixed, err := k.t.open(k.b, b[elligator.Size:serverHelloHead])
	if err != nil {
		return 0, fault.New(fault.Protocol, "the answer isn't from the certificate's server")
	}
	k.body = int(binary.BigEndian.Uint16(fixed))
	if k.body < kexTag || k.body > maxHelloBody || fixed[2] != 0 || fixed[3] != 0 {
		return 0, fault.New(fault.Protocol, "the server's hello has a body of %d bytes", k.body)
	}
	return k.body, nil
}

// finish reads the body of the answer.
func (k *clientKex) finish(b []byte) (secrets, error) {
	body, err := k.t.open(k.b, b)
	if err != nil {
		return secrets{}, fault.New(fault.Protocol, "the body of the server's hello isn't authentic")
	}
	if k.dk != nil {
		if len(body) < mlkem.CiphertextSize768 {
			return secrets{}, fault.New(fault.Protocol, "the server's hello holds no ML-KEM ciphertext")
		}
		ss, err := k.dk.Decapsulate(body[:mlkem.CiphertextSize768])
		if err != nil {
			return secrets{}, fault.New(fault.Protocol, "the server's ML-KEM ciphertext: %w", err)
		}
		k.t.mixKey(ss)
	}
	return k.t.finish(k.flags), nil
}

// serverKex is a server's exchange under way.
type serverKex struct {
	t     *transcript
	peer  *ecdh.PublicKey
	b     *box
	id    helloID
	flags byte
	stamp time.Time
	said  []byte // the body
}

// newServerKex reads the first clientHelloHead bytes of a hello, with one of the keys,
// and returns how many bytes follow. Its error is errStranger.
func newServerKex(keys []*ServerKey, prologue, b []byte) (*serverKex, int, error) {
	rep := [elligator.Size]byte(b)
	pub := elligator.Decode(&rep)
	peer, err := ecdh.X25519().NewPublicKey(pub[:])
	if err != nil {
		return nil, 0, errStranger
	}
	for _, key := range keys {
		es, err := key.priv.ECDH(peer)
		if err != nil {
			return nil, 0, errStranger
		}
		k := &serverKex{t: newTranscript(key.priv.PublicKey(), &key.secret, prologue), peer: peer}
		k.t.mixHash(rep[:])
		k.b = newBox(k.t.mixKey(es))
		fixed, err := k.t.open(k.b, b[elligator.Size:clientHelloHead])
		if err != nil {
			continue
		}
		k.flags = fixed[0]
		n := int(binary.BigEndian.Uint16(fixed[2:]))
		if k.flags&^knownFlags != 0 || fixed[1] != 0 || n < kexTag || n > maxHelloBody {
			return nil, 0, errStranger
		}
		k.stamp = time.Unix(int64(binary.BigEndian.Uint32(fixed[4:])), 0)
		k.id = helloID(k.t.h[:]) // covers the whole authenticated head
		return k, n, nil
	}
	return nil, 0, errStranger
}

// read opens the body of the hello.
func (k *serverKex) read(body []byte) (err error) {
	if k.said, err = k.t.open(k.b, body); err != nil {
		return errStranger
	}
	return nil
}

// answer returns the server's hello, after the client's was read. It costs more than
// all steps before it, so the caller first rejects a replayed hello.
func (k *serverKex) answer(rand io.Reader, pad int) ([]byte, secrets, error) {
	p := k.said
	var out, shared []byte
	if k.flags&flagHybrid != 0 {
		if len(p) < mlkem.EncapsulationKeySize768 {
			return nil, secrets{}, errStranger
		}
		ek, err := mlkem.NewEncapsulationKey768(p[:mlkem.EncapsulationKeySize768])
		if err != nil {
			return nil, secrets{}, errStranger
		}
		shared, out = ek.Encapsulate()
	}
	priv, rep, err := elligator.Generate(rand)
	if err != nil {
		return nil, secrets{}, fault.New(fault.Local, "reading randomness for an ephemeral key: %w", err)
	}
	own, err := ecdh.X25519().NewPrivateKey(priv[:])
	if err != nil {
		return nil, secrets{}, fault.New(fault.Local, "an ephemeral key: %w", err)
	}
	ee, err := own.ECDH(k.peer)
	if err != nil {
		return nil, secrets{}, errStranger
	}
	k.t.mixHash(rep[:])
	b := newBox(k.t.mixKey(ee))
	out = append(out, make([]byte, min(pad, maxHelloBody-kexTag-len(out)))...)
	var fixed [serverFixed]byte
	binary.BigEndian.PutUint16(fixed[:], uint16(len(out)+kexTag))
	hello := k.t.seal(b, k.t.seal(b, rep[:], fixed[:]), out)
	if shared != nil {
		k.t.mixKey(shared)
	}
	return hello, k.t.finish(k.flags), nil
}
