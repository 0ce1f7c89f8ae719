package handshake

import (
	"crypto/sha3"
	"crypto/subtle"
	"io"

	"github.com/chivenet/chive/internal/fault"
)

// The rekey brings ML-KEM to a hop that ntor-v3 made, through relays that know
// nothing of it (docs/spec/pq-circuits.md, section 5):
//
//	REQUEST  client -> relay   SET 1 | EK | MAC 32
//	REPLY    relay -> client   CT | CONFIRM_R 32
//	CONFIRM  client -> relay   CONFIRM_C 32
//
// Backward, the new keys begin with the first cell after REPLY; forward, with
// the first after CONFIRM.

// RekeyExportLabel is the label under which both sides of a hop take the secret
// that a rekey starts from, from the hop's KeyStream (an Exporter).
const RekeyExportLabel = "chive pq rekey 1"

// RequestLen returns the length of a rekey's REQUEST, in bytes; s must be valid.
func (s PQSet) RequestLen() int { return 1 + s.EncapsulationKeyLen() + 32 }

// ReplyLen returns the length of a rekey's REPLY, in bytes; s must be valid.
func (s PQSet) ReplyLen() int { return s.CiphertextLen() + 32 }

// rekeyProtoID is the hybrid's PROTOID with another ending.
func rekeyProtoID(set PQSet) string { return pqSets[set].proto + "-rekey" }

// RekeyState is the client's half of a rekey.
type RekeyState struct {
	set      PQSet
	exporter [32]byte
	kem      kemKey
	request  []byte
	ver      []byte
	used     bool
}

// RekeyClient starts a rekey. exporter is the hop's secret, verification is
// PQVerification's for CarriageB. It reads 64 bytes of rand.
func RekeyClient(rand io.Reader, set PQSet, exporter [32]byte, verification []byte) (*RekeyState, []byte, error) {
	if !set.Valid() {
		return nil, nil, fault.New(fault.Config, "rekey: parameter set %d does not exist", uint8(set))
	}
	s := &RekeyState{set: set, exporter: exporter, ver: append([]byte(nil), verification...)}
	ek, err := s.kem.generate(rand, set)
	if err != nil {
		return nil, nil, err
	}
	req := append(make([]byte, 0, set.RequestLen()), byte(set))
	req = append(req, ek...)
	mac := rekeyMAC(set, &exporter, verification, ek)
	s.request = append(req, mac[:]...)
	return s, append([]byte(nil), s.request...), nil
}

// Wipe forgets the secrets of a rekey that will not be finished.
func (s *RekeyState) Wipe() {
	s.used = true
	s.kem.wipe()
	clear(s.exporter[:])
}

// Finish checks REPLY and returns CONFIRM and the new key material, which is
// also an Exporter, for the next rekey.
func (s *RekeyState) Finish(reply []byte) (confirm []byte, ks KeyStream, err error) {
	if s.used {
		return nil, nil, errUsed("rekey")
	}
	defer s.Wipe()
	if len(reply) != s.set.ReplyLen() {
		return nil, nil, fault.New(fault.Protocol, "rekey reply: %d bytes, not %d", len(reply), s.set.ReplyLen())
	}
	n := s.set.CiphertextLen()
	ss, err := s.kem.decapsulate(reply[:n])
	if err != nil {
		return nil, nil, err
	}
	defer clear(ss)
	k := rekeyDerive(s.set, &s.exporter, ss, s.ver, s.request, reply[:n])
	if subtle.ConstantTimeCompare(k.relay[:], reply[n:]) != 1 {
		return nil, nil, fault.New(fault.Protocol, "rekey reply: confirmation failed")
	}
	return append([]byte(nil), k.client[:]...), &k.ks, nil
}

// RekeyServerState is the relay's half of a rekey, between REPLY and CONFIRM.
type RekeyServerState struct {
	want [32]byte
	used bool
}

// RekeyServer answers REQUEST. exporter is the hop's secret, verifications are the
// strings that the client may have bound. The new key material is for both directions, but
// the relay must not open forward cells with it before Confirm. No ML-KEM work
// is done before the request's MAC, which needs no public-key operation, was
// verified. It reads 32 bytes of rand.
func RekeyServer(rand io.Reader, exporter [32]byte, verifications [][]byte, request []byte) (st *RekeyServerState, reply []byte, ks KeyStream, err error) {
	defer clear(exporter[:])
	if len(request) == 0 || !PQSet(request[0]).Valid() {
		return nil, nil, nil, fault.New(fault.Protocol, "rekey request: no parameter set that exists")
	}
	set := PQSet(request[0])
	if len(request) != set.RequestLen() {
		return nil, nil, nil, fault.New(fault.Protocol, "rekey request: %d bytes, not %d", len(request), set.RequestLen())
	}
	ek, claimed := request[1:len(request)-32], request[len(request)-32:]
	var ver []byte
	found := false
	for _, v := range verifications {
		if mac := rekeyMAC(set, &exporter, v, ek); subtle.ConstantTimeCompare(mac[:], claimed) == 1 {
			ver, found = v, true
			break
		}
	}
	if !found {
		return nil, nil, nil, fault.New(fault.Protocol, "rekey request: authentication failed")
	}
	ct, ss, err := encapsulate(rand, set, ek)
	if err != nil {
		return nil, nil, nil, err
	}
	defer clear(ss)
	k := rekeyDerive(set, &exporter, ss, ver, request, ct)
	return &RekeyServerState{want: k.client}, append(ct, k.relay[:]...), &k.ks, nil
}

// Confirm checks CONFIRM: without it the relay does not know that the client
// has the new keys. An error costs the circuit.
func (s *RekeyServerState) Confirm(confirm []byte) error {
	if s.used {
		return errUsed("rekey")
	}
	s.used = true
	if subtle.ConstantTimeCompare(s.want[:], confirm) != 1 {
		return fault.New(fault.Protocol, "rekey: the client's confirmation failed")
	}
	return nil
}

// rekeyMAC authenticates EK with the hop's secret.
func rekeyMAC(set PQSet, exporter *[32]byte, ver, ek []byte) (out [32]byte) {
	proto := rekeyProtoID(set)
	h := sha3.New256()
	encap(h, proto, ":request_mac")
	encapBytes(h, exporter[:])
	encapBytes(h, ver)
	h.Write([]byte{byte(set)})
	h.Write(ek)
	h.Sum(out[:0])
	return out
}

// rekeyKeys is what both sides derive.
type rekeyKeys struct {
	relay, client [32]byte // confirmations
	ks            v3Stream
}

func rekeyDerive(set PQSet, exporter *[32]byte, ss, ver, request, ct []byte) *rekeyKeys {
	proto := rekeyProtoID(set)
	h := sha3.New256()
	var transcript [32]byte
	encap(h, proto, ":transcript")
	encapBytes(h, ver)
	encapBytes(h, request)
	encapBytes(h, ct)
	h.Sum(transcript[:0])

	k := new(rekeyKeys)
	k.ks.proto = proto
	h.Reset()
	encap(h, proto, ":key_seed")
	h.Write(exporter[:])
	h.Write(ss)
	h.Write(transcript[:])
	h.Sum(k.ks.seed[:0])

	confirm := func(out *[32]byte, tweak string) {
		h.Reset()
		encap(h, proto, tweak)
		h.Write(k.ks.seed[:])
		h.Write(transcript[:])
		h.Sum(out[:0])
	}
	confirm(&k.relay, ":confirm_relay")
	confirm(&k.client, ":confirm_client")
	k.ks.xof = sha3.NewSHAKE256()
	encap(k.ks.xof, proto, ":kdf_final")
	k.ks.xof.Write(k.ks.seed[:])
	return k
}
