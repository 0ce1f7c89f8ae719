package handshake

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"io"

	"golang.org/x/crypto/hkdf"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// Lengths of ntor's handshake data, in bytes.
const (
	ntorClientLen = 20 + 32 + 32 // ID | B | X
	ntorServerLen = 32 + 32      // Y | AUTH
)

// ntor's tweaks (tor-spec, "The ntor handshake").
const (
	ntorProtoID = "ntor-curve25519-sha256-1"
	ntorMAC     = ntorProtoID + ":mac"
	ntorKey     = ntorProtoID + ":key_extract"
	ntorVerify  = ntorProtoID + ":verify"
	ntorExpand  = ntorProtoID + ":key_expand"
)

// Ntor is the handshake with a relay that does not speak ntor-v3.
var Ntor = &Kind{
	Type: cell.HandshakeNtor, Name: "ntor", Form: cell.FormShort, Default: true, SkinLen: ntorClientLen, AnswerLen: ntorServerLen, Cost: CostX25519,
	start: func(rand io.Reader, t *linkspec.Target, _ []byte) (Client, []byte, error) {
		return ntorClient(rand, t.RSA, t.Ntor)
	},
	serve: func(rand io.Reader, r *Relay, skin []byte, _ func([]byte) ([]byte, error)) ([]byte, KeyStream, error) {
		return ntorServer(rand, r.Onion, r.ID.RSA, skin)
	},
}

// ntorState is the client's half of an ntor handshake.
type ntorState struct {
	id    ident.RSAID
	onion ident.X25519Key
	x     NtorKeyPair
	used  bool

	prepared bool
	xb       [32]byte // once prepared
	usable   bool     // the onion key is not of small order
}

// ntorClient starts ntor with the relay that has identity id and the given
// onion key. It reads 32 bytes of rand.
func ntorClient(rand io.Reader, id ident.RSAID, onion ident.X25519Key) (*ntorState, []byte, error) {
	s := &ntorState{id: id, onion: onion}
	if err := s.x.generate(rand); err != nil {
		return nil, nil, err
	}
	skin := make([]byte, 0, ntorClientLen)
	skin = append(skin, id[:]...)
	skin = append(skin, onion[:]...)
	skin = append(skin, s.x.pub[:]...)
	return s, skin, nil
}

// Prepare implements Client.
func (s *ntorState) Prepare() {
	if s.prepared || s.used {
		return
	}
	s.usable = s.x.dh(&s.xb, &s.onion)
	s.prepared = true
}

// Wipe implements Client.
func (s *ntorState) Wipe() {
	s.used = true
	s.x.wipe()
	clear(s.xb[:])
}

// Finish implements Client: the relay's 64 bytes prove that it holds the onion
// key.
func (s *ntorState) Finish(reply []byte) (exts []byte, ks KeyStream, err error) {
	if s.used {
		return nil, nil, errUsed("ntor")
	}
	defer s.Wipe()
	if len(reply) != ntorServerLen {
		return nil, nil, fault.New(fault.Protocol, "ntor reply: %d bytes, not %d", len(reply), ntorServerLen)
	}
	y := ident.X25519Key(reply[:32])
	var xy [32]byte
	defer clear(xy[:])
	// Every check runs before any verdict, so that time does not tell which
	// one failed.
	s.Prepare()
	ok := s.x.dh(&xy, &y) && s.usable
	auth, ks := ntorDerive(&xy, &s.xb, &s.id, &s.onion, &s.x.pub, &y)
	ok = subtle.ConstantTimeCompare(auth[:], reply[32:]) == 1 && ok
	if !ok {
		return nil, nil, fault.New(fault.Protocol, "ntor reply: authentication failed")
	}
	return nil, ks, nil
}

// ntorServer answers an ntor onionskin of 84 bytes. keys are the current onion
// key and any previous ones that are still honoured; id is the relay's own.
func ntorServer(rand io.Reader, keys []*NtorKeyPair, id ident.RSAID, onionskin []byte) (reply []byte, ks KeyStream, err error) {
	if len(onionskin) != ntorClientLen {
		return nil, nil, fault.New(fault.Protocol, "ntor onionskin: %d bytes, not %d", len(onionskin), ntorClientLen)
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
	reply = make([]byte, 0, ntorServerLen)
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
