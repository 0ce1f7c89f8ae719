package handshake

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"io"

	"golang.org/x/crypto/hkdf"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Lengths of ntor's handshake data, in bytes.
const (
	NtorClientLen = 20 + 32 + 32 // ID | B | X
	NtorServerLen = 32 + 32      // Y | AUTH
)

// ntor's tweaks (tor-spec, "The ntor handshake").
const (
	ntorProtoID = "ntor-curve25519-sha256-1"
	ntorMAC     = ntorProtoID + ":mac"
	ntorKey     = ntorProtoID + ":key_extract"
	ntorVerify  = ntorProtoID + ":verify"
	ntorExpand  = ntorProtoID + ":key_expand"
)

// NtorClientState is the client's half of an ntor handshake.
type NtorClientState struct {
	id    ident.RSAID
	onion ident.X25519Key
	x     NtorKeyPair
	used  bool
}

// NtorClient starts ntor with the relay that has identity id and the given
// onion key. It reads 32 bytes of rand.
func NtorClient(rand io.Reader, id ident.RSAID, onion ident.X25519Key) (*NtorClientState, []byte, error) {
	s := &NtorClientState{id: id, onion: onion}
	if err := s.x.generate(rand); err != nil {
		return nil, nil, err
	}
	skin := make([]byte, 0, NtorClientLen)
	skin = append(skin, id[:]...)
	skin = append(skin, onion[:]...)
	skin = append(skin, s.x.pub[:]...)
	return s, skin, nil
}

// Wipe forgets the secret of a handshake that will not be finished.
func (s *NtorClientState) Wipe() {
	s.used = true
	s.x.wipe()
}

// Finish checks the relay's 64 bytes, which prove that it holds the onion key,
// and returns the key material.
func (s *NtorClientState) Finish(reply []byte) (KeyStream, error) {
	if s.used {
		return nil, errUsed("ntor")
	}
	defer s.Wipe()
	if len(reply) != NtorServerLen {
		return nil, fault.New(fault.Protocol, "ntor reply: %d bytes, not %d", len(reply), NtorServerLen)
	}
	y := ident.X25519Key(reply[:32])
	var xy, xb [32]byte
	defer clear(xy[:])
	defer clear(xb[:])
	// Every check runs before any verdict, so that time does not tell which
	// one failed.
	ok := s.x.dh(&xy, &y)
	ok = s.x.dh(&xb, &s.onion) && ok
	auth, ks := ntorDerive(&xy, &xb, &s.id, &s.onion, &s.x.pub, &y)
	ok = subtle.ConstantTimeCompare(auth[:], reply[32:]) == 1 && ok
	if !ok {
		return nil, fault.New(fault.Protocol, "ntor reply: authentication failed")
	}
	return ks, nil
}

// NtorServer answers an ntor onionskin of 84 bytes. keys are the current onion
// key and any previous ones that are still honoured; id is the relay's own.
func NtorServer(rand io.Reader, keys []*NtorKeyPair, id ident.RSAID, onionskin []byte) (reply []byte, ks KeyStream, err error) {
	if len(onionskin) != NtorClientLen {
		return nil, nil, fault.New(fault.Protocol, "ntor onionskin: %d bytes, not %d", len(onionskin), NtorClientLen)
	}
	b, ok := lookup(keys, onionskin[20:52])
	defer b.wipe()
	if !ok || !id.Equal(ident.RSAID(onionskin[:20])) {
		return nil, nil, fault.New(fault.Protocol, "ntor onionskin: made for another identity or onion key")
	}
	x := ident.X25519Key(onionskin[52:])
	var y NtorKeyPair
	defer y.wipe()
	if err := y.generate(rand); err != nil {
		return nil, nil, err
	}
	var xy, xb [32]byte
	defer clear(xy[:])
	defer clear(xb[:])
	ok = y.dh(&xy, &x)
	ok = b.dh(&xb, &x) && ok
	if !ok {
		return nil, nil, fault.New(fault.Protocol, "ntor onionskin: public key of small order")
	}
	auth, ks := ntorDerive(&xy, &xb, &id, &b.pub, &x, &y.pub)
	reply = make([]byte, 0, NtorServerLen)
	reply = append(reply, y.pub[:]...)
	return append(reply, auth[:]...), ks, nil
}

// ntorDerive computes AUTH and the key stream from both shared secrets.
func ntorDerive(xy, xb *[32]byte, id *ident.RSAID, b, x, y *ident.X25519Key) (auth [32]byte, ks KeyStream) {
	in := make([]byte, 0, 5*32+20+len(ntorProtoID))
	in = append(in, xy[:]...)
	in = append(in, xb[:]...)
	in = append(in, id[:]...)
	in = append(in, b[:]...)
	in = append(in, x[:]...)
	in = append(in, y[:]...)
	in = append(in, ntorProtoID...)
	defer clear(in)

	seed := hmacSHA256(ntorKey, in)
	verify := hmacSHA256(ntorVerify, in)
	ai := make([]byte, 0, 4*32+20+len(ntorProtoID)+6)
	ai = append(ai, verify[:]...)
	ai = append(ai, id[:]...)
	ai = append(ai, b[:]...)
	ai = append(ai, y[:]...)
	ai = append(ai, x[:]...)
	ai = append(ai, ntorProtoID...)
	ai = append(ai, "Server"...)
	return hmacSHA256(ntorMAC, ai), hkdf.Expand(sha256.New, seed[:], []byte(ntorExpand))
}

// hmacSHA256 is H(x, t) of the specification: HMAC-SHA256 keyed with a tweak.
func hmacSHA256(t string, x []byte) (out [32]byte) {
	m := hmac.New(sha256.New, []byte(t))
	m.Write(x)
	m.Sum(out[:0])
	return out
}
