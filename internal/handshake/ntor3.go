package handshake

import (
	"crypto/subtle"
	"io"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Lengths of ntor-v3's handshake data without messages, in bytes.
const (
	NtorV3ClientOverhead = 32 + 32 + 32 + 32 // ID | B | X | (message) | MAC
	NtorV3ServerOverhead = 32 + 32           // Y | AUTH | (message)
)

// NtorV3CircuitVerification is the verification string (VER) of a circuit
// extension.
const NtorV3CircuitVerification = "circuit extend"

// ntor3ProtoID is PROTOID of proposal 332.
const ntor3ProtoID = "ntor3-curve25519-sha3_256-1"

// NtorV3State is the client's half of an ntor-v3 handshake.
type NtorV3State struct {
	id    ident.Ed25519ID
	onion ident.X25519Key
	x     NtorKeyPair
	xb    [32]byte
	mac   [32]byte
	ver   []byte
	used  bool
}

// NtorV3Client starts ntor-v3 (proposal 332) with the relay that has identity
// id and the given onion key. msg goes to the relay encrypted, without forward
// secrecy. It reads 32 bytes of rand.
func NtorV3Client(rand io.Reader, id ident.Ed25519ID, onion ident.X25519Key, verification, msg []byte) (*NtorV3State, []byte, error) {
	s := &NtorV3State{id: id, onion: onion, ver: append([]byte(nil), verification...)}
	if err := s.x.generate(rand); err != nil {
		return nil, nil, err
	}
	if !s.x.dh(&s.xb, &onion) {
		return nil, nil, fault.New(fault.Directory, "ntor-v3: the relay's onion key is of small order")
	}
	ph := v3Phase1(ntor3ProtoID, &s.xb, &id, &onion, &s.x.pub, nil, verification)
	skin := make([]byte, 0, NtorV3ClientOverhead+len(msg))
	skin = append(skin, id[:]...)
	skin = append(skin, onion[:]...)
	skin = append(skin, s.x.pub[:]...)
	skin = ph.seal(skin, msg)
	s.mac = ph.mac(skin[96:])
	return s, append(skin, s.mac[:]...), nil
}

// Wipe forgets the secrets of a handshake that will not be finished.
func (s *NtorV3State) Wipe() {
	s.used = true
	s.x.wipe()
	clear(s.xb[:])
}

// Finish checks the relay's reply and returns its decrypted message and the
// key material, which is also an Exporter.
func (s *NtorV3State) Finish(reply []byte) (serverMsg []byte, ks KeyStream, err error) {
	if s.used {
		return nil, nil, errUsed("ntor-v3")
	}
	defer s.Wipe()
	if len(reply) < NtorV3ServerOverhead {
		return nil, nil, fault.New(fault.Protocol, "ntor-v3 reply: %d bytes, fewer than %d", len(reply), NtorV3ServerOverhead)
	}
	y := ident.X25519Key(reply[:32])
	var xy [32]byte
	defer clear(xy[:])
	ok := s.x.dh(&xy, &y)
	f := v3Finish(ntor3ProtoID, s.ver, &xy, &s.xb, nil, &s.id, &s.onion, &s.x.pub, &y, nil, nil)
	auth := f.auth(&s.mac, reply[64:])
	if subtle.ConstantTimeCompare(auth[:], reply[32:64]) != 1 || !ok {
		return nil, nil, fault.New(fault.Protocol, "ntor-v3 reply: authentication failed")
	}
	serverMsg, ks = f.open(reply[64:])
	return serverMsg, ks, nil
}

// NtorV3Server answers an ntor-v3 onionskin. The reply function sees the
// client's decrypted message, after its MAC was verified, and gives the relay's.
func NtorV3Server(rand io.Reader, keys []*NtorKeyPair, id ident.Ed25519ID, verification, onionskin []byte,
	reply func(clientMsg []byte) (serverMsg []byte, err error)) (created []byte, ks KeyStream, err error) {
	n := len(onionskin)
	if n < NtorV3ClientOverhead {
		return nil, nil, fault.New(fault.Protocol, "ntor-v3 onionskin: %d bytes, fewer than %d", n, NtorV3ClientOverhead)
	}
	b, ok := lookup(keys, onionskin[32:64])
	defer b.wipe()
	if !ok || !id.Equal(ident.Ed25519ID(onionskin[:32])) {
		return nil, nil, fault.New(fault.Protocol, "ntor-v3 onionskin: made for another identity or onion key")
	}
	x := ident.X25519Key(onionskin[64:96])
	var xb, xy [32]byte
	defer clear(xb[:])
	defer clear(xy[:])
	ok = b.dh(&xb, &x)
	ph := v3Phase1(ntor3ProtoID, &xb, &id, &b.pub, &x, nil, verification)
	mac := ph.mac(onionskin[96 : n-32])
	if subtle.ConstantTimeCompare(mac[:], onionskin[n-32:]) != 1 || !ok {
		return nil, nil, fault.New(fault.Protocol, "ntor-v3 onionskin: authentication failed")
	}
	serverMsg, err := reply(ph.seal(nil, onionskin[96:n-32]))
	if err != nil {
		return nil, nil, err
	}
	var y NtorKeyPair
	defer y.wipe()
	if err := y.generate(rand); err != nil {
		return nil, nil, err
	}
	y.dh(&xy, &x) // X was found usable above: small order does not depend on the scalar
	f := v3Finish(ntor3ProtoID, verification, &xy, &xb, nil, &id, &b.pub, &x, &y.pub, nil, nil)
	created = make([]byte, 64, NtorV3ServerOverhead+len(serverMsg))
	copy(created, y.pub[:])
	created, ks = f.seal(created, serverMsg)
	auth := f.auth(&mac, created[64:])
	copy(created[32:], auth[:])
	return created, ks, nil
}
