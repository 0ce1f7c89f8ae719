package handshake

import (
	"crypto/subtle"
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// Lengths of ntor-v3's handshake data without messages, in bytes.
const (
	ntorV3ClientLen = 32 + 32 + 32 + 32 // ID | B | X | (message) | MAC
	ntorV3ServerLen = 32 + 32           // Y | AUTH | (message)
)

// v3 is ntor-v3 (proposal 332) or its hybrid with ML-KEM (pq.go): the same
// steps, with another PROTOID and, in the hybrid, an encapsulation key EK in the
// onionskin and a ciphertext CT in the reply.
type v3 struct {
	name  string // for errors
	proto string // PROTOID
	set   PQSet  // zero: no ML-KEM
}

var ntor3 = &v3{name: "ntor-v3", proto: "ntor3-curve25519-sha3_256-1"}

// ntor3Verification is the verification string (VER) of a circuit extension.
const ntor3Verification = "circuit extend"

// NtorV3 is the default handshake with a relay of today. A relay needs some 85 us for a circuit by it. X25519, two
// products and a new key, takes some 50 of these, so that no relay can make much more circuits a second than C tor's.
var NtorV3 = ntor3.kind(Kind{
	Type: cell.HandshakeNtorV3, Form: cell.FormShort, Default: true, Proto: protover.Relay, Version: protover.RelayNtorV3, Cost: CostX25519,
},
	func(*linkspec.Target) []byte { return []byte(ntor3Verification) },
	func(*Relay) [][]byte { return [][]byte{[]byte(ntor3Verification)} })

// kind completes a row of the table. client and relay return the verification
// strings: the one that a client binds, and those that a relay accepts.
func (v *v3) kind(k Kind, client func(*linkspec.Target) []byte, relay func(*Relay) [][]byte) *Kind {
	k.Name, k.Set, k.Extensions, k.byEd = v.name, v.set, true, true
	k.SkinLen, k.AnswerLen = v.skinLen(), v.replyLen()
	k.start = func(rand io.Reader, t *linkspec.Target, exts []byte) (Client, []byte, error) {
		return v.client(rand, t.Ed, t.Ntor, client(t), exts)
	}
	k.serve = func(rand io.Reader, r *Relay, skin []byte, answer func([]byte) ([]byte, error)) ([]byte, KeyStream, error) {
		return v.serve(rand, r.Onion, r.ID.Ed, relay(r), skin, answer)
	}
	return &k
}

// skinLen returns the length of an onionskin without the client's message:
// ID | B | X | EK | (message) | MAC.
func (v *v3) skinLen() int { return ntorV3ClientLen + v.set.EncapsulationKeyLen() }

// replyLen returns the length of a reply without the relay's message:
// Y | CT | AUTH | (message).
func (v *v3) replyLen() int { return ntorV3ServerLen + v.set.CiphertextLen() }

// v3State is the client's half of a handshake.
type v3State struct {
	v3    *v3
	id    ident.Ed25519ID
	onion ident.X25519Key
	x     NtorKeyPair
	kem   kemKey
	ek    []byte
	xb    [32]byte
	mac   [32]byte
	ver   []byte
	used  bool
}

// client starts the handshake with the relay that has identity id and the given
// onion key. msg goes to the relay encrypted under X25519 alone, without forward
// secrecy. It reads 32 bytes of rand, and then 64 for ML-KEM.
func (v *v3) client(rand io.Reader, id ident.Ed25519ID, onion ident.X25519Key, verification, msg []byte) (*v3State, []byte, error) {
	s := &v3State{v3: v, id: id, onion: onion, ver: append([]byte(nil), verification...)}
	if err := s.x.generate(rand); err != nil {
		return nil, nil, err
	}
	if !s.x.dh(&s.xb, &onion) {
		return nil, nil, fault.New(fault.Directory, "%s: the relay's onion key is of small order", v.name)
	}
	if v.set.Valid() {
		var err error
		if s.ek, err = s.kem.generate(rand, v.set); err != nil {
			return nil, nil, err
		}
	}
	ph := v3Phase1(v.proto, &s.xb, &id, &onion, &s.x.pub, s.ek, verification)
	skin := make([]byte, 0, v.skinLen()+len(msg))
	skin = append(skin, id[:]...)
	skin = append(skin, onion[:]...)
	skin = append(skin, s.x.pub[:]...)
	skin = append(skin, s.ek...)
	skin = ph.seal(skin, msg)
	s.mac = ph.mac(skin[96+len(s.ek):])
	return s, append(skin, s.mac[:]...), nil
}

// Prepare implements Client: the onionskin already needed all of it.
func (s *v3State) Prepare() {}

// Wipe implements Client.
func (s *v3State) Wipe() {
	s.used = true
	s.x.wipe()
	s.kem.wipe()
	clear(s.xb[:])
}

// Finish implements Client. The key stream is an Exporter as well.
func (s *v3State) Finish(reply []byte) (serverMsg []byte, ks KeyStream, err error) {
	v := s.v3
	if s.used {
		return nil, nil, errUsed(v.name)
	}
	defer s.Wipe()
	if len(reply) < v.replyLen() {
		return nil, nil, fault.New(fault.Protocol, "%s reply: %d bytes, fewer than %d", v.name, len(reply), v.replyLen())
	}
	y, head := ident.X25519Key(reply[:32]), v.replyLen()
	ct, claimed, encrypted := reply[32:head-32], reply[head-32:head], reply[head:]
	var xy [32]byte
	defer clear(xy[:])
	ok := s.x.dh(&xy, &y)
	var ss []byte
	if v.set.Valid() {
		if ss, err = s.kem.decapsulate(ct); err != nil {
			return nil, nil, err
		}
		defer clear(ss)
	}
	f := v3Finish(v.proto, s.ver, &xy, &s.xb, ss, &s.id, &s.onion, &s.x.pub, &y, s.ek, ct)
	auth := f.auth(&s.mac, encrypted)
	if subtle.ConstantTimeCompare(auth[:], claimed) != 1 || !ok {
		return nil, nil, fault.New(fault.Protocol, "%s reply: authentication failed", v.name)
	}
	serverMsg, ks = f.open(encrypted)
	return serverMsg, ks, nil
}

// serve answers an onionskin. verifications are the strings that the client may
// have bound, the likeliest first; there are several while what the relay
// advertises is changing. The reply function gets the client's message and
// returns the relay's. Neither that nor any ML-KEM work happens before the
// onionskin's MAC is verified, which costs one X25519. serve reads 32 bytes of
// rand, and then 32 for ML-KEM.
func (v *v3) serve(rand io.Reader, keys []*NtorKeyPair, id ident.Ed25519ID, verifications [][]byte, onionskin []byte,
	reply func(clientMsg []byte) (serverMsg []byte, err error)) (created []byte, ks KeyStream, err error) {
	n := len(onionskin)
	if n < v.skinLen() {
		return nil, nil, fault.New(fault.Protocol, "%s onionskin: %d bytes, fewer than %d", v.name, n, v.skinLen())
	}
	b, ok := lookup(keys, onionskin[32:64])
	defer b.wipe()
	if !ok || !id.Equal(ident.Ed25519ID(onionskin[:32])) {
		return nil, nil, fault.New(fault.Protocol, "%s onionskin: made for another identity or onion key", v.name)
	}
	x := ident.X25519Key(onionskin[64:96])
	ek := onionskin[96 : 96+v.set.EncapsulationKeyLen()]
	encrypted, claimed := onionskin[96+len(ek):n-32], onionskin[n-32:]
	var xb, xy [32]byte
	defer clear(xb[:])
	defer clear(xy[:])
	ok = b.dh(&xb, &x)
	var ph *phase1
	var ver []byte
	var mac [32]byte
	for _, try := range verifications {
		p := v3Phase1(v.proto, &xb, &id, &b.pub, &x, ek, try)
		if mac = p.mac(encrypted); subtle.ConstantTimeCompare(mac[:], claimed) == 1 {
			ph, ver = p, try
			break
		}
	}
	if ph == nil || !ok {
		return nil, nil, fault.New(fault.Protocol, "%s onionskin: authentication failed", v.name)
	}
	serverMsg, err := reply(ph.seal(nil, encrypted))
	if err != nil {
		return nil, nil, err
	}
	var y NtorKeyPair
	defer y.wipe()
	if err := y.generate(rand); err != nil {
		return nil, nil, err
	}
	var ct, ss []byte
	if v.set.Valid() {
		if ct, ss, err = encapsulate(rand, v.set, ek); err != nil {
			return nil, nil, err
		}
		defer clear(ss)
	}
	y.dh(&xy, &x) // X was found usable above: small order does not depend on the scalar
	f := v3Finish(v.proto, ver, &xy, &xb, ss, &id, &b.pub, &x, &y.pub, ek, ct)
	head := v.replyLen()
	created = make([]byte, head, head+len(serverMsg))
	copy(created, y.pub[:])
	copy(created[32:], ct)
	created, ks = f.seal(created, serverMsg)
	auth := f.auth(&mac, created[head:])
	copy(created[head-32:], auth[:])
	return created, ks, nil
}
