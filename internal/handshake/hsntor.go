package handshake

import (
	"crypto/sha3"
	"crypto/subtle"
	"encoding/binary"
	"io"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// The tweaks of hs-ntor (rend-spec, "Using the hs-ntor handshake").
const (
	hsProtoID = "tor-hs-ntor-curve25519-sha3-256-1"
	hsMAC     = hsProtoID + ":hs_mac"
	hsVerify  = hsProtoID + ":hs_verify"
	hsEnc     = hsProtoID + ":hs_key_extract"
	hsExpand  = hsProtoID + ":hs_key_expand"
)

const (
	// HSIntroOverhead is the length that hs-ntor adds to the encrypted part of an
	// INTRODUCE1: CLIENT_PK | (encrypted) | MAC, in bytes.
	HSIntroOverhead = 32 + 32
	// HSRendLen is the length of the handshake in a RENDEZVOUS1: SERVER_PK |
	// AUTH, in bytes.
	HSRendLen = 32 + 32
)

// HSService has the keys of an onion service at one introduction point, from the
// service's descriptor.
type HSService struct {
	Enc           ident.X25519Key // B, the introduction point's encryption key
	Auth          ident.Ed25519ID // AUTH_KEY, its authentication key
	Subcredential [32]byte
}

// HSClientState is a client's half of an hs-ntor handshake.
type HSClientState struct {
	svc  HSService
	x    NtorKeyPair
	xb   [32]byte
	used bool
}

// HSNtorClient starts a handshake with a service through one introduction point.
// It reads 32 bytes from rand.
func HSNtorClient(rand io.Reader, svc HSService) (*HSClientState, error) {
	s := &HSClientState{svc: svc}
	if err := s.x.generate(rand); err != nil {
		return nil, err
	}
	if !s.x.dh(&s.xb, &svc.Enc) {
		return nil, fault.New(fault.Directory, "hs-ntor: the introduction point's key is of small order")
	}
	return s, nil
}

// Introduce encrypts the service's part of an INTRODUCE1. header is the message
// before that part; the caller must pad plaintext. Call it for one message only:
// a second one would use the same key stream.
func (s *HSClientState) Introduce(header, plaintext []byte) []byte {
	k := hsIntroKeys(&s.xb, &s.svc.Auth, &s.x.pub, &s.svc.Enc, &s.svc.Subcredential)
	defer k.wipe()
	out := make([]byte, 0, len(plaintext)+HSIntroOverhead)
	out = append(out, s.x.pub[:]...)
	out = xorAES256(out, &k.enc, plaintext)
	mac := k.mac(header, out)
	return append(out, mac[:]...)
}

// Finish checks the handshake of a RENDEZVOUS2 and returns the key material of
// the virtual hop (layer.NewTor1Rendezvous). What follows the handshake is padding:
// C tor makes RENDEZVOUS1 as long as a version 2 service's.
func (s *HSClientState) Finish(reply []byte) (KeyStream, error) {
	if s.used {
		return nil, errUsed("hs-ntor")
	}
	s.used = true
	defer s.x.wipe()
	defer clear(s.xb[:])
	if len(reply) < HSRendLen {
		return nil, fault.New(fault.Protocol, "hs-ntor reply: %d bytes, fewer than %d", len(reply), HSRendLen)
	}
	reply = reply[:HSRendLen]
	y := ident.X25519Key(reply[:32])
	var xy [32]byte
	defer clear(xy[:])
	ok := s.x.dh(&xy, &y)
	auth, ks := hsRendKeys(&xy, &s.xb, &s.svc.Auth, &s.svc.Enc, &s.x.pub, &y)
	if subtle.ConstantTimeCompare(auth[:], reply[32:]) != 1 || !ok {
		return nil, fault.New(fault.Protocol, "hs-ntor reply: authentication failed")
	}
	return ks, nil
}

// HSServerState is the service's half of the handshake, after it has opened an
// introduction and before its answer.
type HSServerState struct {
	key  *NtorKeyPair
	auth ident.Ed25519ID
	x    ident.X25519Key
	xb   [32]byte
	sub  int // the index of the subcredential
}

// HSNtorOpen opens the encrypted part of an INTRODUCE2 that came through the
// introduction point with the given keys. subcredentials are those of the time
// periods for which the service has descriptors; HSNtorOpen tries all of them, so
// that its time does not reveal which one matches.
func HSNtorOpen(key *NtorKeyPair, auth ident.Ed25519ID, subcredentials [][32]byte, header, body []byte) (st *HSServerState, plaintext []byte, err error) {
	n := len(body)
	if n < HSIntroOverhead {
		return nil, nil, fault.New(fault.Protocol, "hs-ntor introduction: %d bytes, fewer than %d", n, HSIntroOverhead)
	}
	st = &HSServerState{key: key, auth: auth, x: ident.X25519Key(body[:32])}
	ok := key.dh(&st.xb, &st.x)
	var enc [32]byte
	defer clear(enc[:])
	found := 0
	for i := range subcredentials {
		k := hsIntroKeys(&st.xb, &auth, &st.x, &key.pub, &subcredentials[i])
		mac := k.mac(header, body[:n-32])
		eq := subtle.ConstantTimeCompare(mac[:], body[n-32:])
		subtle.ConstantTimeCopy(eq, enc[:], k.enc[:])
		found |= eq
		st.sub = subtle.ConstantTimeSelect(eq, i, st.sub)
		k.wipe()
	}
	if found != 1 || !ok {
		clear(st.xb[:])
		return nil, nil, fault.New(fault.Protocol, "hs-ntor introduction: authentication failed")
	}
	return st, xorAES256(nil, &enc, body[32:n-32]), nil
}

// Subcredential returns the index of the subcredential that HSNtorOpen found to match.
func (s *HSServerState) Subcredential() int { return s.sub }

// Reply makes the handshake of a RENDEZVOUS1 and the key material of the virtual
// hop. It reads 32 bytes from rand.
func (s *HSServerState) Reply(rand io.Reader) (reply []byte, ks KeyStream, err error) {
	var y NtorKeyPair
	defer y.wipe()
	if err := y.generate(rand); err != nil {
		return nil, nil, err
	}
	var xy [32]byte
	defer clear(xy[:])
	y.dh(&xy, &s.x) // HSNtorOpen has already checked X
	auth, ks := hsRendKeys(&xy, &s.xb, &s.auth, &s.key.pub, &s.x, &y.pub)
	clear(s.xb[:])
	return append(append(make([]byte, 0, HSRendLen), y.pub[:]...), auth[:]...), ks, nil
}

// hsKeys are the keys of an introduction.
type hsKeys struct{ enc, macKey [32]byte }

func hsIntroKeys(xb *[32]byte, auth *ident.Ed25519ID, x, b *ident.X25519Key, subcredential *[32]byte) (k hsKeys) {
	h := sha3.NewSHAKE256()
	h.Write(xb[:])
	h.Write(auth[:])
	h.Write(x[:])
	h.Write(b[:])
	io.WriteString(h, hsProtoID+hsEnc+hsExpand)
	h.Write(subcredential[:])
	h.Read(k.enc[:])
	h.Read(k.macKey[:])
	return k
}

// mac returns the MAC over the introduction's header, CLIENT_PK and the
// encrypted data.
func (k *hsKeys) mac(header, body []byte) [32]byte { return HSMAC(k.macKey[:], header, body) }

func (k *hsKeys) wipe() { *k = hsKeys{} }

// HSMAC is rend-spec's MAC(key, msg), with msg in one piece or in several: SHA3-256
// of the key's length in eight bytes, the key, and the message.
func HSMAC(key []byte, msg ...[]byte) (out [32]byte) {
	h := sha3.New256()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(key)))
	h.Write(n[:])
	h.Write(key)
	for _, m := range msg {
		h.Write(m)
	}
	h.Sum(out[:0])
	return out
}

// hsRendKeys computes AUTH_INPUT_MAC and the key stream, which is also an Exporter.
func hsRendKeys(xy, xb *[32]byte, auth *ident.Ed25519ID, b, x, y *ident.X25519Key) (authMAC [32]byte, ks KeyStream) {
	in := make([]byte, 0, 6*32+len(hsProtoID))
	in = append(in, xy[:]...)
	in = append(in, xb[:]...)
	in = append(in, auth[:]...)
	in = append(in, b[:]...)
	in = append(in, x[:]...)
	in = append(in, y[:]...)
	in = append(in, hsProtoID...)
	defer clear(in)
	seed := HSMAC(in, []byte(hsEnc))
	verify := HSMAC(in, []byte(hsVerify))

	ai := make([]byte, 0, 5*32+len(hsProtoID)+6)
	ai = append(ai, verify[:]...)
	ai = append(ai, auth[:]...)
	ai = append(ai, b[:]...)
	ai = append(ai, y[:]...)
	ai = append(ai, x[:]...)
	ai = append(ai, hsProtoID+"Server"...)
	hs := &hsStream{v3Stream: v3Stream{proto: hsProtoID, seed: seed, xof: sha3.NewSHAKE256()}, auth: *auth, b: *b, x: *x, y: *y}
	hs.xof.Write(seed[:])
	io.WriteString(hs.xof, hsExpand)
	return HSMAC(ai, []byte(hsMAC)), hs
}
