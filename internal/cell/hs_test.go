package cell

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha3"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// The vectors are from Arti's tor-cell (tests/testvec_relaymsg.rs) unless a
// comment names another source.

var (
	threes = strings.Repeat("33", 32)
	ones   = strings.Repeat("01", 32)
	sig15  = strings.Repeat("15", 64)
)

func TestEstablishIntro(t *testing.T) {
	base := EstablishIntro{AuthKey: [32]byte(unhex(t, threes)), MAC: [32]byte(unhex(t, ones)), Sig: [64]byte(unhex(t, sig15))}
	dos := IntroDoS{1, 2}
	for ext, exts := range map[string][]Ext{
		"00": {},
		"01 01 13 02 01 0000000000000001 02 0000000000000002":          {dos.Ext()},
		"02 01 13 02 01 0000000000000001 02 0000000000000002 02 01 00": {dos.Ext(), {2, []byte{0}}},
	} {
		m := base
		m.Exts = exts
		maced := "02 0020" + threes + ext
		m.MACed, m.Signed = unhex(t, maced), unhex(t, maced+ones)
		check(t, "ESTABLISH_INTRO", maced+ones+"0040"+sig15, "", m, ParseEstablishIntro, ptr((*EstablishIntro).Append))
	}
	refuse(t, "01 0020"+threes+"00"+ones+"0040"+sig15, "authentication key type 1", ParseEstablishIntro)
	refuse(t, "02 001f"+threes+"00"+ones+"0040"+sig15, "authentication key of 31 bytes", ParseEstablishIntro)
	refuse(t, "02 0020"+threes+"00"+ones+"003f"+sig15, "signature of 63 bytes", ParseEstablishIntro)
	refuse(t, "02 0020"+threes+"00"+ones+"0040"+sig15[2:], "64 bytes wanted, 63 left", ParseEstablishIntro)
}

// TestEstablishIntroOfCtor checks the MAC and the signature of a message that C
// tor made: MACed and Signed are the bytes that C tor covers.
func TestEstablishIntroOfCtor(t *testing.T) {
	m, err := ParseEstablishIntro(unhex(t, `02 0020 75BC879BF697A9B12E1E10596FEF041127FECD11FDD80706AEAE35812EA74328 00
		A3DF998D6749A9323035AD23DAA7F8607E4F87473A975E50A42DEC9C0E565C48 0040
		5A7F5E53D55B307B5F7866AE14508DDA3412E2B3E4805176C25413CEDF204F7F53EAECADC0844472AA7BEC3BDCBA0A65F1FCDEF397B399F534F46E535B0E6301`))
	if err != nil {
		t.Fatal(err)
	}
	kh := unhex(t, "250CCAF964B17B621A58CD82DF5DAFD060BA5F28")
	mac := sha3.Sum256(append(append(binary.BigEndian.AppendUint64(nil, uint64(len(kh))), kh...), m.MACed...))
	if mac != m.MAC {
		t.Error("MAC")
	}
	if !ed25519.Verify(m.AuthKey[:], append([]byte(EstablishIntroSigPrefix), m.Signed...), m.Sig[:]) {
		t.Error("signature")
	}
	if !bytes.Equal(m.AppendMACed(nil), m.MACed) || !bytes.Equal(m.AppendSigned(nil), m.Signed) {
		t.Error("what is covered encodes to something else")
	}
}

func TestIntroduce(t *testing.T) {
	zero := strings.Repeat("00", 20)
	for ext, exts := range map[string][]Ext{"00": {}, "02 01 01 00 02 01 00": {{1, []byte{0}}, {2, []byte{0}}}} {
		header := zero + "02 0020" + threes + ext
		m := Introduce{AuthKey: [32]byte(unhex(t, threes)), Exts: exts, Header: unhex(t, header), Encrypted: []byte{1, 9, 8, 4}}
		check(t, "INTRODUCE1", header+"01090804", "", m, ParseIntroduce, ptr((*Introduce).Append))
		if !bytes.Equal(m.AppendHeader(nil), m.Header) {
			t.Error("header")
		}
	}
	refuse(t, "10"+zero[2:]+"02 0020"+threes+"00 01090804", "key of a version 2 service", ParseIntroduce)
	refuse(t, zero+"02 0004 00010203 00 01090804", "authentication key of 4 bytes", ParseIntroduce)
	// From C tor in a chutney network: comments of the same file.
	b := unhex(t, "000000000000000000000000000000000000000002002011AAA1BA28353424061A63326C3BFF4FE4EC7EC24BB5EB740E9D167DEF103206001E99C1B9B0C24E6C63E9A182C33A8969DF94D08FD9FE98D82E21B262AE6CBC4E58971D6A38426C5D52519AB03377274AF74D2332C8FB599BFCBC5F2B02ECDAC4025EE24B63A824101E29EB9917B1C3A72E16FA2336DC81D0D483D31B9181F7CF628272FA7988301ADCE3B400880C25633718503B10C9F8909DFA50AEEDB90D7FD9D0090DBFAC4E61D527F97FD8C0A8BAB3DABF9A5E3C7FCD5FF843905F2C401743F5019B04A2F1427D3B2343A388846B7EACDD9FD46A24776D0DDDE3696A90EE36DC4732A95BFAFF871AEDE3BB5DD86047905B716148A27FF3C8A5B0F5282DD5430DA7E2A421D5274281EAC6C0EAE94EB17996EE81953FB700DD6D1DC4B7")
	if m, err := ParseIntroduce(b); err != nil || m.AuthKey[0] != 0x11 || len(m.Header) != 56 || len(m.Encrypted) != len(b)-56 {
		t.Errorf("%+v %v", m, err)
	}
}

func TestIntroductionAnswers(t *testing.T) {
	check(t, "INTRODUCE_ACK", "0000 00", "", IntroduceAck{IntroduceOK, []Ext{}}, ParseIntroduceAck, ptr((*IntroduceAck).Append))
	check(t, "INTRODUCE_ACK", "0003 01 05 01 aa", "", IntroduceAck{IntroduceCantRelay, []Ext{{5, []byte{0xaa}}}}, ParseIntroduceAck, ptr((*IntroduceAck).Append))
	check(t, "INTRO_ESTABLISHED", "00", "", IntroEstablished{[]Ext{}}, ParseIntroEstablished, ptr((*IntroEstablished).Append))
	refuse(t, "00", "2 bytes wanted", ParseIntroduceAck)
	refuse(t, "0000", "1 bytes wanted", ParseIntroduceAck)
	refuse(t, "", "1 bytes wanted", ParseIntroEstablished)
	if s := IntroduceNotRecognized.String() + ", " + IntroduceStatus(9).String(); s != "service not recognised, introduce status 9" {
		t.Error(s)
	}
}

func TestRendezvous(t *testing.T) {
	cookie := strings.Repeat("01", 20)
	check(t, "ESTABLISH_RENDEZVOUS", cookie+"01", cookie, EstablishRendezvous{[20]byte(unhex(t, cookie))}, ParseEstablishRendezvous, ptr((*EstablishRendezvous).Append))
	refuse(t, cookie[2:], "20 bytes wanted, 19 left", ParseEstablishRendezvous)
	check(t, "RENDEZVOUS1", strings.Repeat("00", 20)+"123456", "", Rendezvous1{Handshake: []byte{0x12, 0x34, 0x56}}, ParseRendezvous1, ptr((*Rendezvous1).Append))
	refuse(t, "00", "20 bytes wanted", ParseRendezvous1)
}

func TestIntroducePlaintext(t *testing.T) {
	// Taken from C tor in a chutney network.
	head := "1EFFEACE9BE629B357ADA359071A7912DB828A5B 00 01 0020 7D73D007977A08CD1ABAD50F6B836C718700D687E000728C357ABC7CE3C8334D"
	specs := "03 00 06 7F000001138A 02 14 E48664DBCCEF9650B5D0E7B60E6DE9BCED2FB91E 03 20 3FF84AA4B21453D20106BD4EDDA919386BF67D541CAA78F38BE6A08C2B3D0C4F"
	m := IntroducePlaintext{
		Cookie: [20]byte(unhex(t, "1EFFEACE9BE629B357ADA359071A7912DB828A5B")), Exts: []Ext{},
		Onion: ident.X25519Key(unhex(t, "7D73D007977A08CD1ABAD50F6B836C718700D687E000728C357ABC7CE3C8334D")), Specs: unhex(t, specs),
	}
	check(t, "plaintext", head+specs+"000000000000000000000000", head+specs, m, ParseIntroducePlaintext, ptr((*IntroducePlaintext).Append))
	cookie := strings.Repeat("01", 20)
	refuse(t, cookie+"00 02 0020"+threes+"00", "onion key type 2", ParseIntroducePlaintext)
	refuse(t, cookie+"00 01 0021"+threes+"00", "onion key of 33 bytes", ParseIntroducePlaintext)
	refuse(t, cookie+"00 01 0020"+threes+"02 00 01 07", "1 bytes wanted, 0 left", ParseIntroducePlaintext)
}

func TestHSExts(t *testing.T) {
	for body, m := range map[string]IntroDoS{
		"00":                     {-1, -1},
		"01 02 000000007fffffff": {-1, 1<<31 - 1},
		"02 01 0000000000000005 02 0000000000000006": {5, 6},
	} {
		check(t, "DoS", body, "", m, ParseIntroDoS, func(m IntroDoS, b []byte) []byte { return append(b, m.Ext().Body...) })
	}
	if m, err := ParseIntroDoS(unhex(t, "01 09 0000000000000005")); err != nil || m != (IntroDoS{-1, -1}) {
		t.Error(m, err)
	}
	refuse(t, "01 01 0000000080000000", "parameter 1 is 2147483648", ParseIntroDoS)
	refuse(t, "01 01 00", "8 bytes wanted", ParseIntroDoS)
	pow := PoW{Nonce: [16]byte{1}, Effort: 0x01020304, SeedHead: [4]byte{2}, Solution: [16]byte{3}}
	got, err := ParsePoW(pow.Ext().Body)
	if err != nil || !reflect.DeepEqual(got, pow) || len(pow.Ext().Body) != 41 {
		t.Error(got, err)
	}
	refuse(t, "02", "unknown version 2", ParsePoW)
	kem := OnionKEM{Set: 2, ID: [8]byte{1}, Hash: [32]byte{9}}
	body := "02 0100000000000000 09" + strings.Repeat("00", 31)
	check(t, "ciphertext", body, "", kem, ParseOnionKEM, func(m OnionKEM, b []byte) []byte { return append(b, m.Ext().Body...) })
	refuse(t, "02 01", "8 bytes wanted", ParseOnionKEM)
	refuse(t, body[:len(body)-2], "32 bytes wanted, 31 left", ParseOnionKEM)
	refuse(t, body+"00", "1 bytes left over", ParseOnionKEM)
	refuse(t, "01 00", "16 bytes wanted", ParsePoW)
}
