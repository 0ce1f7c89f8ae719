package handshake

import (
	"crypto/sha1"
	"crypto/subtle"
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
)

// Fast is CREATE_FAST (tor-spec, "CREATE_FAST/CREATED_FAST cells"). It has no
// public key, so it protects nothing that the link's TLS does not. It is for a
// first directory hop whose onion key is not known yet.
var Fast = &Kind{
	Type: cell.HandshakeFast, Name: "create-fast", Form: cell.FormFast, SkinLen: cell.CreateFastLen, AnswerLen: cell.CreatedFastLen, Cost: CostHash,
	start: func(rand io.Reader, _ *linkspec.Target, _ []byte) (Client, []byte, error) { return fastClient(rand) },
	serve: func(rand io.Reader, _ *Relay, skin []byte, _ func([]byte) ([]byte, error)) ([]byte, KeyStream, error) {
		return fastServer(rand, skin)
	},
}

// fastState is the client's half of a CREATE_FAST handshake.
type fastState struct {
	x    [20]byte
	used bool
}

// fastClient starts CREATE_FAST. It reads 20 bytes of rand.
func fastClient(rand io.Reader) (*fastState, []byte, error) {
	s := new(fastState)
	if _, err := io.ReadFull(rand, s.x[:]); err != nil {
		return nil, nil, fault.New(fault.Local, "CREATE_FAST: %w", err)
	}
	return s, append([]byte(nil), s.x[:]...), nil
}

// Prepare implements Client.
func (s *fastState) Prepare() {}

// Wipe implements Client.
func (s *fastState) Wipe() {
	s.used = true
	clear(s.x[:])
}

// Finish implements Client: it checks CREATED_FAST's 40 bytes.
func (s *fastState) Finish(reply []byte) (exts []byte, ks KeyStream, err error) {
	if s.used {
		return nil, nil, errUsed("CREATE_FAST")
	}
	defer s.Wipe()
	if len(reply) != cell.CreatedFastLen {
		return nil, nil, fault.New(fault.Protocol, "CREATED_FAST: %d bytes, not %d", len(reply), cell.CreatedFastLen)
	}
	k := newKDFTor(s.x[:], reply[:20])
	var kh [20]byte
	k.fill(kh[:])
	if subtle.ConstantTimeCompare(kh[:], reply[20:]) != 1 {
		return nil, nil, fault.New(fault.Protocol, "CREATED_FAST: derivative key data does not match")
	}
	return nil, k, nil
}

// fastServer answers the 20 bytes of a CREATE_FAST.
func fastServer(rand io.Reader, onionskin []byte) (reply []byte, ks KeyStream, err error) {
	if len(onionskin) != cell.CreateFastLen {
		return nil, nil, fault.New(fault.Protocol, "CREATE_FAST: %d bytes, not %d", len(onionskin), cell.CreateFastLen)
	}
	reply = make([]byte, cell.CreatedFastLen)
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

// fill reads into p. Callers ask for far fewer than the 256 blocks that exist.
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
