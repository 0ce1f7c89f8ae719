package handshake

import (
	"crypto/sha3"
	"crypto/subtle"
	"io"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Carriage H brings ML-KEM to the virtual hop between an onion service and its
// client, which hs-ntor makes (docs/spec/pq-onions.md). The service's EK is in its
// descriptor, INTRODUCE1 announces the ciphertext by its hash, and then
//
//	CT       client -> service   forward, the new keys begin with the next cell
//	CONFIRM  service -> client   backward, the new keys begin with the next cell

// The constants of carriage H.
const (
	// HSKEMSet is the parameter set of carriage H.
	HSKEMSet = PQ768
	// HSKEMConfirmLen is the length of CONFIRM, in bytes.
	HSKEMConfirmLen = 32

	hskemProtoID = "chive-hs-ntor-curve25519-mlkem768-sha3_256-1"
	hskemVer     = "chive pq onion H 2"
	hskemLabel   = "chive pq onion H"
)

// HSRekeyVerification is the verification string of a rekey between an onion service
// and its client: carriage B on top of carriage H.
var HSRekeyVerification = []byte("chive pq onion B 2")

// hsStream is the key stream of hs-ntor, which knows the handshake's public values.
type hsStream struct {
	v3Stream
	auth    ident.Ed25519ID
	b, x, y ident.X25519Key
}

// hskemID is KEYID.
func hskemID(ek []byte) [cell.OnionKEMIDLen]byte {
	sum := sha3.Sum256(ek)
	return [cell.OnionKEMIDLen]byte(sum[:])
}

// CheckHSKEM checks the ML-KEM key of a descriptor, as FIPS 203, section 7.2, asks.
func CheckHSKEM(ek []byte) error {
	if _, err := pqSets[HSKEMSet].scheme.UnmarshalBinaryPublicKey(ek); err != nil {
		return fault.New(fault.Directory, "the onion service's ML-KEM key: %w", err)
	}
	return nil
}

// HSKEMClient is a client's half of carriage H: a ciphertext for one introduction.
type HSKEMClient struct {
	blinded ident.Ed25519ID
	ek, ct  []byte

	mu sync.Mutex // guards ss
	ss []byte     // nil once used
}

// HSKEMEncapsulate makes a ciphertext for ek, the key in the descriptor that the
// blinded key signs. It reads 32 bytes from rand.
func HSKEMEncapsulate(rand io.Reader, blinded ident.Ed25519ID, ek []byte) (*HSKEMClient, error) {
	ct, ss, err := encapsulate(rand, HSKEMSet, ek)
	if err != nil {
		return nil, err
	}
	return &HSKEMClient{blinded: blinded, ek: ek, ct: ct, ss: ss}, nil
}

// Announcement is what INTRODUCE1 says of the ciphertext.
func (c *HSKEMClient) Announcement() cell.OnionKEM {
	return cell.OnionKEM{Set: uint8(HSKEMSet), ID: hskemID(c.ek), Hash: sha3.Sum256(c.ct)}
}

// Wipe forgets the secret of an introduction that failed.
func (c *HSKEMClient) Wipe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.ss)
	c.ss = nil
}

// Finish returns the ciphertext to send, the confirmation that the service must
// answer with, and the key material that follows. hs is what HSClientState.Finish
// returned. It can be called once.
func (c *HSKEMClient) Finish(hs KeyStream) (ct []byte, confirm [HSKEMConfirmLen]byte, ks KeyStream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := hs.(*hsStream)
	if !ok || c.ss == nil {
		return nil, confirm, nil, errUsed("carriage H")
	}
	defer func() {
		clear(c.ss)
		c.ss = nil
	}()
	confirm, ks = hskemDerive(h, c.ss, c.blinded, c.ek, c.ct)
	return c.ct, confirm, ks, nil
}

// HSKEMKey is the ML-KEM key of one descriptor of an onion service. Its methods may be
// called from many goroutines.
type HSKEMKey struct {
	blinded ident.Ed25519ID
	ek      []byte
	id      [cell.OnionKEMIDLen]byte

	mu  sync.Mutex // guards kem
	kem kemKey
}

// NewHSKEMKey makes a key for the descriptor that the blinded key signs. It reads 64
// bytes from rand.
func NewHSKEMKey(rand io.Reader, blinded ident.Ed25519ID) (*HSKEMKey, error) {
	k := &HSKEMKey{blinded: blinded}
	ek, err := k.kem.generate(rand, HSKEMSet)
	if err != nil {
		return nil, err
	}
	k.ek, k.id = ek, hskemID(ek)
	return k, nil
}

// Public returns EK, for the descriptor; the caller must not change it.
func (k *HSKEMKey) Public() []byte { return k.ek }

// ID returns KEYID, by which introductions name the key.
func (k *HSKEMKey) ID() [cell.OnionKEMIDLen]byte { return k.id }

// Wipe erases the secret key.
func (k *HSKEMKey) Wipe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kem.wipe()
}

// Finish opens a client's ciphertext and returns the confirmation to answer with, and
// the key material that follows. hash is what the introduction announced; hs is what
// HSServerState.Reply returned. A ciphertext with another hash costs no ML-KEM work.
func (k *HSKEMKey) Finish(hs KeyStream, hash [32]byte, ct []byte) (confirm [HSKEMConfirmLen]byte, ks KeyStream, err error) {
	h, ok := hs.(*hsStream)
	if !ok {
		return confirm, nil, fault.New(fault.Local, "carriage H: not the keys of hs-ntor")
	}
	if len(ct) != HSKEMSet.CiphertextLen() {
		return confirm, nil, fault.New(fault.Protocol, "onion ciphertext: %d bytes, not %d", len(ct), HSKEMSet.CiphertextLen())
	}
	if sum := sha3.Sum256(ct); subtle.ConstantTimeCompare(sum[:], hash[:]) != 1 {
		return confirm, nil, fault.New(fault.Protocol, "onion ciphertext: not the one that was announced")
	}
	ss, err := k.decapsulate(ct)
	if err != nil {
		return confirm, nil, err
	}
	defer clear(ss)
	confirm, ks = hskemDerive(h, ss, k.blinded, k.ek, ct)
	return confirm, ks, nil
}

func (k *HSKEMKey) decapsulate(ct []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kem.sk == nil {
		return nil, fault.New(fault.Closed, "onion ciphertext: its key has been erased")
	}
	return k.kem.open(ct)
}

func hskemDerive(hs *hsStream, ss []byte, blinded ident.Ed25519ID, ek, ct []byte) (confirm [HSKEMConfirmLen]byte, ks KeyStream) {
	s := hs.Export(hskemLabel)
	defer clear(s[:])
	h := sha3.New256()
	var transcript [32]byte
	encap(h, hskemProtoID, ":transcript")
	encap(h, hskemVer)
	h.Write(blinded[:])
	h.Write(hs.auth[:])
	h.Write(hs.b[:])
	h.Write(hs.x[:])
	h.Write(hs.y[:])
	encapBytes(h, ek)
	encapBytes(h, ct)
	h.Sum(transcript[:0])

	out := &v3Stream{proto: hskemProtoID}
	h.Reset()
	encap(h, hskemProtoID, ":key_seed")
	h.Write(s[:])
	h.Write(ss)
	h.Write(transcript[:])
	h.Sum(out.seed[:0])

	h.Reset()
	encap(h, hskemProtoID, ":confirm_service")
	h.Write(out.seed[:])
	h.Write(transcript[:])
	h.Sum(confirm[:0])

	out.xof = sha3.NewSHAKE256()
	encap(out.xof, hskemProtoID, ":kdf_final")
	out.xof.Write(out.seed[:])
	return confirm, out
}
