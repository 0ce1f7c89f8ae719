package handshake

import (
	"crypto/subtle"
	"io"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// pqProtoID is PROTOID of the hybrid, one for each parameter set, so that no
// transcript of one set is one of another.
func pqProtoID(set PQSet) string {
	switch set {
	case PQ512:
		return "chive-ntor3-curve25519-mlkem512-sha3_256-1"
	case PQ1024:
		return "chive-ntor3-curve25519-mlkem1024-sha3_256-1"
	}
	return "chive-ntor3-curve25519-mlkem768-sha3_256-1"
}

// OnionskinOverhead returns the length of the hybrid's onionskin without the
// client's message: ID | B | X | EK | (message) | MAC.
func (s PQSet) OnionskinOverhead() int { return NtorV3ClientOverhead + s.EncapsulationKeyLen() }

// ReplyOverhead returns the length of the hybrid's reply without the relay's
// message: Y | CT | AUTH | (message).
func (s PQSet) ReplyOverhead() int { return NtorV3ServerOverhead + s.CiphertextLen() }

// PQState is the client's half of a hybrid handshake.
type PQState struct {
	set   PQSet
	proto string
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

// PQClient starts the hybrid of ntor-v3 and ML-KEM (docs/spec/pq-circuits.md)
// with the relay that has identity id and the given onion key. msg goes to the
// relay encrypted under X25519 alone. It reads 32 bytes of rand for X25519 and
// then 64 for ML-KEM.
func PQClient(rand io.Reader, set PQSet, id ident.Ed25519ID, onion ident.X25519Key, verification, msg []byte) (*PQState, []byte, error) {
	if !set.Valid() {
		return nil, nil, fault.New(fault.Config, "hybrid handshake: parameter set %d does not exist", uint8(set))
	}
	s := &PQState{set: set, proto: pqProtoID(set), id: id, onion: onion, ver: append([]byte(nil), verification...)}
	if err := s.x.generate(rand); err != nil {
		return nil, nil, err
	}
	if !s.x.dh(&s.xb, &onion) {
		return nil, nil, fault.New(fault.Directory, "hybrid handshake: the relay's onion key is of small order")
	}
	var err error
	if s.ek, err = s.kem.generate(rand, set); err != nil {
		return nil, nil, err
	}
	ph := v3Phase1(s.proto, &s.xb, &id, &onion, &s.x.pub, s.ek, verification)
	skin := make([]byte, 0, set.OnionskinOverhead()+len(msg))
	skin = append(skin, id[:]...)
	skin = append(skin, onion[:]...)
	skin = append(skin, s.x.pub[:]...)
	skin = append(skin, s.ek...)
	skin = ph.seal(skin, msg)
	s.mac = ph.mac(skin[96+len(s.ek):])
	return s, append(skin, s.mac[:]...), nil
}

// Wipe forgets the secrets of a handshake that will not be finished.
func (s *PQState) Wipe() {
	s.used = true
	s.x.wipe()
	s.kem.wipe()
	clear(s.xb[:])
}

// Finish checks the relay's reply and returns its decrypted message and the
// key material, which is also an Exporter.
func (s *PQState) Finish(reply []byte) (serverMsg []byte, ks KeyStream, err error) {
	if s.used {
		return nil, nil, errUsed("hybrid handshake")
	}
	defer s.Wipe()
	n := s.set.CiphertextLen()
	if len(reply) < s.set.ReplyOverhead() {
		return nil, nil, fault.New(fault.Protocol, "hybrid reply: %d bytes, fewer than %d", len(reply), s.set.ReplyOverhead())
	}
	y, ct := ident.X25519Key(reply[:32]), reply[32:32+n]
	var xy [32]byte
	defer clear(xy[:])
	ok := s.x.dh(&xy, &y)
	ss, err := s.kem.decapsulate(ct)
	if err != nil {
		return nil, nil, err
	}
	defer clear(ss)
	f := v3Finish(s.proto, s.ver, &xy, &s.xb, ss, &s.id, &s.onion, &s.x.pub, &y, s.ek, ct)
	encrypted := reply[64+n:]
	auth := f.auth(&s.mac, encrypted)
	if subtle.ConstantTimeCompare(auth[:], reply[32+n:64+n]) != 1 || !ok {
		return nil, nil, fault.New(fault.Protocol, "hybrid reply: authentication failed")
	}
	serverMsg, ks = f.open(encrypted)
	return serverMsg, ks, nil
}

// PQServer answers a hybrid onionskin. verifications are the strings that the
// client may have bound, the likeliest first: one, or two while what the relay
// advertises is changing. No ML-KEM work is done, and the reply function is not
// called, before the onionskin's MAC was verified, which costs one X25519. It
// reads 32 bytes of rand for X25519 and then 32 for ML-KEM.
func PQServer(rand io.Reader, set PQSet, keys []*NtorKeyPair, id ident.Ed25519ID, verifications [][]byte, onionskin []byte,
	reply func(clientMsg []byte) (serverMsg []byte, err error)) (created []byte, ks KeyStream, err error) {
	if !set.Valid() {
		return nil, nil, fault.New(fault.Protocol, "hybrid onionskin: parameter set %d does not exist", uint8(set))
	}
	n := len(onionskin)
	if n < set.OnionskinOverhead() {
		return nil, nil, fault.New(fault.Protocol, "hybrid onionskin: %d bytes, fewer than %d", n, set.OnionskinOverhead())
	}
	b, ok := lookup(keys, onionskin[32:64])
	defer b.wipe()
	if !ok || !id.Equal(ident.Ed25519ID(onionskin[:32])) {
		return nil, nil, fault.New(fault.Protocol, "hybrid onionskin: made for another identity or onion key")
	}
	proto := pqProtoID(set)
	x := ident.X25519Key(onionskin[64:96])
	ek := onionskin[96 : 96+set.EncapsulationKeyLen()]
	encrypted, claimed := onionskin[96+len(ek):n-32], onionskin[n-32:]
	var xb, xy [32]byte
	defer clear(xb[:])
	defer clear(xy[:])
	ok = b.dh(&xb, &x)
	var ph *phase1
	var ver []byte
	var mac [32]byte
	for _, v := range verifications {
		p := v3Phase1(proto, &xb, &id, &b.pub, &x, ek, v)
		if mac = p.mac(encrypted); subtle.ConstantTimeCompare(mac[:], claimed) == 1 {
			ph, ver = p, v
			break
		}
	}
	if ph == nil || !ok {
		return nil, nil, fault.New(fault.Protocol, "hybrid onionskin: authentication failed")
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
	ct, ss, err := encapsulate(rand, set, ek)
	if err != nil {
		return nil, nil, err
	}
	defer clear(ss)
	y.dh(&xy, &x) // X was found usable above
	f := v3Finish(proto, ver, &xy, &xb, ss, &id, &b.pub, &x, &y.pub, ek, ct)
	head := 64 + len(ct)
	created = make([]byte, head, head+len(serverMsg))
	copy(created, y.pub[:])
	copy(created[32:], ct)
	created, ks = f.seal(created, serverMsg)
	auth := f.auth(&mac, created[head:])
	copy(created[32+len(ct):], auth[:])
	return created, ks, nil
}

// PQVerification returns the verification string (VER) of a hybrid handshake or
// a rekey: how the messages are carried, and what the relay advertises in its
// ProtoName entry, which the client takes from the signed consensus and the
// relay from its own descriptor.
func PQVerification(c Carriage, advertised string) []byte {
	v := append([]byte("chive pq circuit extend "), byte(c), ' ')
	return append(v, advertised...)
}

// Carriage says how a post-quantum secret reaches a hop.
type Carriage byte

// The carriages.
const (
	CarriageA Carriage = 'A' // in the handshake that makes the hop
	CarriageB Carriage = 'B' // in a rekey of a hop that ntor-v3 made
)
