package handshake

import (
	"crypto/sha1"
	"crypto/subtle"
	"io"

	"github.com/chivenet/chive/internal/fault"
)

// Lengths of CREATE_FAST's and CREATED_FAST's handshake data, in bytes.
const (
	FastClientLen = 20
	FastServerLen = 40
)

// FastClientState is the client's half of a CREATE_FAST handshake.
type FastClientState struct {
	x    [20]byte
	used bool
}

// FastClient starts CREATE_FAST (tor-spec, "CREATE_FAST/CREATED_FAST cells"):
// no public key, so it protects nothing that the link's TLS does not. It is
// for a first directory hop whose onion key is not known yet.
func FastClient(rand io.Reader) (*FastClientState, []byte, error) {
	s := new(FastClientState)
	if _, err := io.ReadFull(rand, s.x[:]); err != nil {
		return nil, nil, fault.New(fault.Local, "CREATE_FAST: %w", err)
	}
	return s, append([]byte(nil), s.x[:]...), nil
}

// Finish checks CREATED_FAST's 40 bytes and returns the key material.
func (s *FastClientState) Finish(reply []byte) (KeyStream, error) {
	if s.used {
		return nil, errUsed("CREATE_FAST")
	}
	s.used = true
	defer clear(s.x[:])
	if len(reply) != FastServerLen {
		return nil, fault.New(fault.Protocol, "CREATED_FAST: %d bytes, not %d", len(reply), FastServerLen)
	}
	ks := newKDFTor(s.x[:], reply[:20])
	var kh [20]byte
	ks.fill(kh[:])
	if subtle.ConstantTimeCompare(kh[:], reply[20:]) != 1 {
		return nil, fault.New(fault.Protocol, "CREATED_FAST: derivative key data does not match")
	}
	return ks, nil
}

// FastServer answers the 20 bytes of a CREATE_FAST.
func FastServer(rand io.Reader, onionskin []byte) (reply []byte, ks KeyStream, err error) {
	if len(onionskin) != FastClientLen {
		return nil, nil, fault.New(fault.Protocol, "CREATE_FAST: %d bytes, not %d", len(onionskin), FastClientLen)
	}
	reply = make([]byte, FastServerLen)
	if _, err := io.ReadFull(rand, reply[:20]); err != nil {
		return nil, nil, fault.New(fault.Local, "CREATED_FAST: %w", err)
	}
	k := newKDFTor(onionskin, reply[:20])
	k.fill(reply[20:])
	return reply, k, nil
}

// kdfTor is KDF-TOR (tor-spec, "KDF-TOR"): SHA-1 of K0 and a counter byte.
type kdfTor struct {
	in   [41]byte // K0 | counter
	buf  [20]byte
	left int // unread bytes at buf's end
	done bool
}

func newKDFTor(x, y []byte) *kdfTor {
	k := new(kdfTor)
	copy(k.in[:20], x)
	copy(k.in[20:40], y)
	return k
}

// fill reads what is certain to be there: far fewer than 256 blocks.
func (k *kdfTor) fill(p []byte) {
	if _, err := io.ReadFull(k, p); err != nil {
		panic(err)
	}
}

func (k *kdfTor) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if k.left == 0 {
			if k.done {
				return n, io.EOF
			}
			k.buf = sha1.Sum(k.in[:])
			k.left = len(k.buf)
			k.in[40]++
			k.done = k.in[40] == 0
		}
		c := copy(p[n:], k.buf[len(k.buf)-k.left:])
		k.left -= c
		n += c
	}
	return n, nil
}
