package cell

import (
	"encoding/binary"
	"strconv"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/ident"
)

// CookieLen is the length of a rendezvous cookie, in bytes.
const CookieLen = 20

// authKeyEd25519 is the only type of introduction point authentication key:
// Ed25519, with SHA3-256 for the MAC.
const authKeyEd25519 = 2

func appendAuthKey(dst []byte, key *[32]byte) []byte {
	dst = append(dst, authKeyEd25519, 0, 32)
	return append(dst, key[:]...)
}

func readAuthKey(r *bin.Reader) (key [32]byte) {
	if t := r.U8(); r.Err() == nil && t != authKeyEd25519 {
		r.Fail("unknown authentication key type %d", t)
	}
	if n := r.U16(); r.Err() == nil && n != 32 {
		r.Fail("authentication key of %d bytes", n)
	}
	r.Copy(key[:])
	return key
}

// EstablishIntroSigPrefix precedes an ESTABLISH_INTRO body in its signature's
// input.
const EstablishIntroSigPrefix = "Tor establish-intro cell v1"

// EstablishIntro is the body of an ESTABLISH_INTRO message (rend-spec,
// "Registering an introduction point"): from an onion service to the relay that
// will be its introduction point. To make one: set AuthKey and Exts; compute the
// MAC of the output of AppendMACed with the circuit's KH as the key; set MAC;
// sign EstablishIntroSigPrefix and the output of AppendSigned; set Sig.
type EstablishIntro struct {
	AuthKey [32]byte
	Exts    []Ext
	MAC     [32]byte
	Sig     [64]byte

	// MACed and Signed are the received bytes that MAC and (after the prefix) Sig
	// cover. ParseEstablishIntro sets them; they alias the input.
	MACed, Signed []byte
}

// AppendMACed writes the bytes that MAC covers.
func (m *EstablishIntro) AppendMACed(dst []byte) []byte {
	return AppendExts(appendAuthKey(dst, &m.AuthKey), m.Exts)
}

// AppendSigned writes the bytes that Sig covers after the prefix.
func (m *EstablishIntro) AppendSigned(dst []byte) []byte {
	return append(m.AppendMACed(dst), m.MAC[:]...)
}

// Append writes the body.
func (m *EstablishIntro) Append(dst []byte) []byte {
	return append(append(m.AppendSigned(dst), 0, 64), m.Sig[:]...)
}

// ParseEstablishIntro reads the body. It checks neither MAC nor signature.
func ParseEstablishIntro(b []byte) (EstablishIntro, error) {
	r := bin.NewReader("ESTABLISH_INTRO", b)
	m := EstablishIntro{AuthKey: readAuthKey(&r), Exts: ReadExts(&r)}
	m.MACed = b[:r.Offset()]
	r.Copy(m.MAC[:])
	m.Signed = b[:r.Offset()]
	if n := r.U16(); r.Err() == nil && n != 64 {
		r.Fail("signature of %d bytes", n)
	}
	r.Copy(m.Sig[:])
	if r.Err() != nil {
		return EstablishIntro{}, r.Err()
	}
	return m, nil
}

// IntroEstablished is the body of an INTRO_ESTABLISHED message.
type IntroEstablished struct{ Exts []Ext }

// Append writes the body.
func (m *IntroEstablished) Append(dst []byte) []byte { return AppendExts(dst, m.Exts) }

// ParseIntroEstablished reads the body.
func ParseIntroEstablished(b []byte) (IntroEstablished, error) {
	r := bin.NewReader("INTRO_ESTABLISHED", b)
	m := IntroEstablished{ReadExts(&r)}
	return m, r.Err()
}

// Introduce is the body of INTRODUCE1 and INTRODUCE2: from a client through an
// introduction point to an onion service.
type Introduce struct {
	AuthKey   [32]byte // the introduction point's key of that service
	Exts      []Ext
	Encrypted []byte // the client's key, ciphertext and MAC (rend-spec, "hs-ntor")

	// Header has the received bytes before Encrypted: the handshake covers them.
	// ParseIntroduce sets it; it aliases the input.
	Header []byte
}

// AppendHeader writes the bytes before Encrypted.
func (m *Introduce) AppendHeader(dst []byte) []byte {
	dst = append(dst, zeros[:20]...) // formerly the key of a version 2 service
	return AppendExts(appendAuthKey(dst, &m.AuthKey), m.Exts)
}

// ParseIntroduce reads the body; it refuses one for a version 2 service.
func ParseIntroduce(b []byte) (Introduce, error) {
	r := bin.NewReader("INTRODUCE", b)
	var legacy [20]byte
	if r.Copy(legacy[:]); legacy != [20]byte{} {
		r.Fail("key of a version 2 service")
	}
	m := Introduce{AuthKey: readAuthKey(&r), Exts: ReadExts(&r)}
	m.Header = b[:r.Offset()]
	m.Encrypted = r.Rest()
	if r.Err() != nil {
		return Introduce{}, r.Err()
	}
	return m, nil
}

// IntroduceStatus is the outcome of an INTRODUCE1.
type IntroduceStatus uint16

// Outcomes.
const (
	IntroduceOK            IntroduceStatus = 0 // forwarded to the service
	IntroduceNotRecognized IntroduceStatus = 1 // this relay has no circuit of that service
	IntroduceBadFormat     IntroduceStatus = 2 // the message could not be read
	IntroduceCantRelay     IntroduceStatus = 3 // it could not be forwarded
)

// String describes the status.
func (s IntroduceStatus) String() string {
	switch s {
	case IntroduceOK:
		return "relayed to the service"
	case IntroduceNotRecognized:
		return "service not recognised"
	case IntroduceBadFormat:
		return "bad message format"
	case IntroduceCantRelay:
		return "cannot relay to the service"
	}
	return "introduce status " + strconv.Itoa(int(s))
}

// IntroduceAck is the body of an INTRODUCE_ACK message.
type IntroduceAck struct {
	Status IntroduceStatus
	Exts   []Ext
}

// Append writes the body.
func (m *IntroduceAck) Append(dst []byte) []byte {
	return AppendExts(binary.BigEndian.AppendUint16(dst, uint16(m.Status)), m.Exts)
}

// ParseIntroduceAck reads the body.
func ParseIntroduceAck(b []byte) (IntroduceAck, error) {
	r := bin.NewReader("INTRODUCE_ACK", b)
	m := IntroduceAck{IntroduceStatus(r.U16()), ReadExts(&r)}
	if r.Err() != nil {
		return IntroduceAck{}, r.Err()
	}
	return m, nil
}

// EstablishRendezvous is the body of an ESTABLISH_RENDEZVOUS message. The body
// of the answer, RENDEZVOUS_ESTABLISHED, is empty.
type EstablishRendezvous struct{ Cookie [CookieLen]byte }

// Append writes the body.
func (m *EstablishRendezvous) Append(dst []byte) []byte { return append(dst, m.Cookie[:]...) }

// ParseEstablishRendezvous reads the body.
func ParseEstablishRendezvous(b []byte) (m EstablishRendezvous, err error) {
	r := bin.NewReader("ESTABLISH_RENDEZVOUS", b)
	r.Copy(m.Cookie[:])
	return m, r.Err()
}

// Rendezvous1 is the body of a RENDEZVOUS1 message, from a service to the
// rendezvous point. The body of RENDEZVOUS2, which the rendezvous point sends to
// the client, is Handshake alone.
type Rendezvous1 struct {
	Cookie    [CookieLen]byte
	Handshake []byte // the service's part of hs-ntor
}

// Append writes the body.
func (m *Rendezvous1) Append(dst []byte) []byte {
	return append(append(dst, m.Cookie[:]...), m.Handshake...)
}

// ParseRendezvous1 reads the body.
func ParseRendezvous1(b []byte) (m Rendezvous1, err error) {
	r := bin.NewReader("RENDEZVOUS1", b)
	r.Copy(m.Cookie[:])
	m.Handshake = r.Rest()
	return m, r.Err()
}

// IntroducePlaintext is the plaintext of Introduce.Encrypted: how the service
// reaches the client's rendezvous point (rend-spec, "Processing an INTRODUCE2").
type IntroducePlaintext struct {
	Cookie [CookieLen]byte
	Exts   []Ext
	Onion  ident.X25519Key // the rendezvous point's ntor key
	Specs  []byte          // its link specifiers, as linkspec.Append writes them
}

// Append writes the plaintext without padding.
func (m *IntroducePlaintext) Append(dst []byte) []byte {
	dst = AppendExts(append(dst, m.Cookie[:]...), m.Exts)
	dst = append(dst, 1, 0, 32) // key type ntor
	return append(append(dst, m.Onion[:]...), m.Specs...)
}

// ParseIntroducePlaintext reads the plaintext; the rest is padding.
func ParseIntroducePlaintext(b []byte) (IntroducePlaintext, error) {
	r := bin.NewReader("INTRODUCE plaintext", b)
	var m IntroducePlaintext
	r.Copy(m.Cookie[:])
	m.Exts = ReadExts(&r)
	if t := r.U8(); r.Err() == nil && t != 1 {
		r.Fail("unknown onion key type %d", t)
	}
	if n := r.U16(); r.Err() == nil && n != 32 {
		r.Fail("onion key of %d bytes", n)
	}
	r.Copy(m.Onion[:])
	m.Specs = readSpecs(&r, b)
	if r.Err() != nil {
		return IntroducePlaintext{}, r.Err()
	}
	return m, nil
}
