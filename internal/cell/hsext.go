package cell

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/bin"
)

// Types of extension fields of onion-service messages.
const (
	ExtIntroDoS = 1 // in ESTABLISH_INTRO: the rate of INTRODUCE2 that the service accepts
	ExtPoW      = 2 // in INTRODUCE's plaintext: proof of work
	// ExtOnionKEM is in INTRODUCE's plaintext, too: a ciphertext follows on the
	// virtual hop (docs/spec/pq-onions.md).
	ExtOnionKEM = 0xf0
)

// IntroDoS is the body of an ExtIntroDoS extension. A negative value stands for a
// missing parameter.
type IntroDoS struct {
	RatePerSec  int64 // INTRODUCE2 messages a second
	BurstPerSec int64
}

// Ext returns the extension.
func (m *IntroDoS) Ext() Ext {
	body := []byte{0}
	for i, v := range []int64{m.RatePerSec, m.BurstPerSec} {
		if v >= 0 {
			body[0]++
			body = binary.BigEndian.AppendUint64(append(body, byte(i+1)), uint64(v))
		}
	}
	return Ext{ExtIntroDoS, body}
}

// ParseIntroDoS reads the body of the extension. It ignores unknown parameters,
// and refuses a value above 2^31-1.
func ParseIntroDoS(body []byte) (IntroDoS, error) {
	r := bin.NewReader("introduction DoS parameters", body)
	m := IntroDoS{-1, -1}
	for range r.U8() {
		typ, v := r.U8(), r.U64()
		if v > 1<<31-1 {
			r.Fail("parameter %d is %d", typ, v)
		}
		switch typ {
		case 1:
			m.RatePerSec = int64(v)
		case 2:
			m.BurstPerSec = int64(v)
		}
	}
	if r.Err() != nil {
		return IntroDoS{}, r.Err()
	}
	return m, nil
}

// PoW is the body of an ExtPoW extension, version 1: an Equi-X solution that is
// not yet checked.
type PoW struct {
	Nonce    [16]byte
	Effort   uint32
	SeedHead [4]byte
	Solution [16]byte
}

// Ext returns the extension.
func (m *PoW) Ext() Ext {
	body := append([]byte{1}, m.Nonce[:]...)
	body = binary.BigEndian.AppendUint32(body, m.Effort)
	return Ext{ExtPoW, append(append(body, m.SeedHead[:]...), m.Solution[:]...)}
}

// ParsePoW reads the body of the extension; it refuses an unknown version.
func ParsePoW(body []byte) (PoW, error) {
	r := bin.NewReader("proof of work", body)
	if v := r.U8(); r.Err() == nil && v != 1 {
		r.Fail("unknown version %d", v)
	}
	var m PoW
	r.Copy(m.Nonce[:])
	m.Effort = r.U32()
	r.Copy(m.SeedHead[:])
	r.Copy(m.Solution[:])
	if r.Err() != nil {
		return PoW{}, r.Err()
	}
	return m, nil
}

// OnionKEMIDLen is the length of the name of an onion service's ML-KEM key, in bytes.
const OnionKEMIDLen = 8

// OnionKEM is the body of an ExtOnionKEM extension: the ciphertext that the client
// will send (docs/spec/pq-onions.md, section 3).
type OnionKEM struct {
	Set  uint8               // ML-KEM's parameter set
	ID   [OnionKEMIDLen]byte // names the service's key
	Hash [32]byte            // of the ciphertext
}

// Ext returns the extension.
func (m *OnionKEM) Ext() Ext {
	body := append([]byte{m.Set}, m.ID[:]...)
	return Ext{ExtOnionKEM, append(body, m.Hash[:]...)}
}

// ParseOnionKEM reads the body of the extension; it refuses bytes that are left over.
func ParseOnionKEM(body []byte) (OnionKEM, error) {
	r := bin.NewReader("onion ciphertext's announcement", body)
	m := OnionKEM{Set: r.U8()}
	r.Copy(m.ID[:])
	r.Copy(m.Hash[:])
	if err := r.End(); err != nil {
		return OnionKEM{}, err
	}
	return m, nil
}
