package cell

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// check asserts that s decodes to m and that m encodes to canon (to s when
// canon is empty). The body is also decoded with every shorter length, which
// must not panic.
func check[T any](t *testing.T, name, s, canon string, m T, parse func([]byte) (T, error), app func(T, []byte) []byte) {
	t.Helper()
	b := unhex(t, s)
	got, err := parse(b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%s %s: %+v, not %+v: %v", name, s, got, m, err)
	}
	want := b
	if canon != "" {
		want = unhex(t, canon)
	}
	if enc := app(m, []byte{9}); !bytes.Equal(enc, append([]byte{9}, want...)) {
		t.Errorf("%s: % x, not % x", name, enc[1:], want)
	}
	for n := range b {
		parse(b[:n])
	}
}

// refuse asserts that s does not decode, with an error of kind Protocol that
// contains want.
func refuse[T any](t *testing.T, s, want string, parse func([]byte) (T, error)) {
	t.Helper()
	m, err := parse(unhex(t, s))
	if err == nil || !strings.Contains(err.Error(), want) || !fault.Is(err, fault.Protocol) {
		t.Errorf("%s: %+v, error %q does not say %q", s, m, err, want)
	}
}

func TestVersions(t *testing.T) {
	check(t, "VERSIONS", "0003 0004 0005", "", Versions{3, 4, 5}, ParseVersions, Versions.Append)
	check(t, "VERSIONS", "", "", Versions{}, ParseVersions, Versions.Append)
	refuse(t, "000300", "2 bytes wanted, 1 left", ParseVersions)
	if c := (Versions{4, 5}).AppendCell(nil); !bytes.Equal(c, unhex(t, "0000 07 0004 0004 0005")) {
		t.Errorf("% x", c)
	}
}

func TestCerts(t *testing.T) {
	m := Certs{{4, []byte{1, 2}}, {99, []byte{}}}
	check(t, "CERTS", "02 04 0002 0102 63 0000", "", m, ParseCerts, Certs.Append)
	check(t, "CERTS", "00 ff", "00", Certs{}, ParseCerts, Certs.Append)
	refuse(t, "02 04 0001 01", "1 bytes wanted, 0 left", ParseCerts)
	refuse(t, "01 04 0002 01", "2 bytes wanted, 1 left", ParseCerts)
	refuse(t, "02 04 0000 04 0000", "two certificates of type 4", ParseCerts)
	if b, ok := m.Find(4); !ok || len(b) != 2 {
		t.Error("find")
	}
	if _, ok := m.Find(5); ok {
		t.Error("found what is not there")
	}
}

func TestAuth(t *testing.T) {
	c := strings.Repeat("ab", 32)
	check(t, "AUTH_CHALLENGE", c+"0002 0001 0003 77", c+"0002 0001 0003",
		AuthChallenge{[32]byte(bytes.Repeat([]byte{0xab}, 32)), []uint16{1, 3}}, ParseAuthChallenge,
		func(m AuthChallenge, b []byte) []byte { return m.Append(b) })
	refuse(t, c[2:], "32 bytes wanted", ParseAuthChallenge)
	refuse(t, c+"0002 0001", "4 bytes wanted, 2 left", ParseAuthChallenge)
	check(t, "AUTHENTICATE", "0003 0002 0102", "", Authenticate{3, []byte{1, 2}}, ParseAuthenticate,
		func(m Authenticate, b []byte) []byte { return m.Append(b) })
	refuse(t, "0003 0003 0102", "3 bytes wanted, 2 left", ParseAuthenticate)
}

func TestNetinfo(t *testing.T) {
	app := func(m Netinfo, b []byte) []byte { return m.Append(b) }
	check(t, "NETINFO", "5f000000 04 04 7f000001 02 04 04 c0000201 06 10 20010db8000000000000000000000001", "",
		Netinfo{0x5f000000, addr("127.0.0.1"), []netip.Addr{addr("192.0.2.1"), addr("2001:db8::1")}}, ParseNetinfo, app)
	// An unknown type (a host name) and a wrong length are passed over.
	check(t, "NETINFO", "00000000 00 03 616263 02 04 02 0102 04 04 c0000201 0000", "00000000 04 04 00000000 01 04 04 c0000201",
		Netinfo{0, netip.Addr{}, []netip.Addr{addr("192.0.2.1")}}, ParseNetinfo, app)
	refuse(t, "5f000000 04 04 7f0000", "4 bytes wanted, 3 left", ParseNetinfo)
	refuse(t, "5f000000 04 04 7f000001 02 04 04 c0000201", "1 bytes wanted, 0 left", ParseNetinfo)
}

func TestCreate(t *testing.T) {
	x := strings.Repeat("0b", 20)
	check(t, "CREATE_FAST", x+"00", x, CreateFast(bytes.Repeat([]byte{11}, 20)), ParseCreateFast, func(m CreateFast, b []byte) []byte { return m.Append(b) })
	check(t, "CREATED_FAST", x+x+"00", x+x, CreatedFast(bytes.Repeat([]byte{11}, 40)), ParseCreatedFast, func(m CreatedFast, b []byte) []byte { return m.Append(b) })
	check(t, "CREATE2", "0003 0002 aabb 00", "0003 0002 aabb", Create2{HandshakeNtorV3, []byte{0xaa, 0xbb}}, ParseCreate2, func(m Create2, b []byte) []byte { return m.Append(b) })
	check(t, "CREATED2", "0002 aabb 00", "0002 aabb", Created2{[]byte{0xaa, 0xbb}}, ParseCreated2, func(m Created2, b []byte) []byte { return m.Append(b) })
	refuse(t, x[2:], "CREATE_FAST", ParseCreateFast)
	refuse(t, x, "CREATED_FAST", ParseCreatedFast)
	refuse(t, "0002 01fd 00", "509 bytes wanted, 1 left", ParseCreate2)
	refuse(t, "0002 aa", "2 bytes wanted, 1 left", ParseCreated2)
	if HandshakeType(9).String() != "handshake type 9" {
		t.Error("names")
	}
}

// The vectors of relay messages up to TestResolved are those of Arti's tor-cell
// (tests/testvec_relaymsg.rs), which took most of them from C tor.
func TestBegin(t *testing.T) {
	app := func(m Begin, b []byte) []byte { return m.Append(b) }
	check(t, "BEGIN", "3132372E302E302E313A3730303300", "", Begin{"127.0.0.1", 7003, 0}, ParseBegin, app)
	check(t, "BEGIN", "7777772e786b63642e636f6d3a34343300 00000003", "", Begin{"www.xkcd.com", 443, 3}, ParseBegin, app)
	check(t, "BEGIN", "5b323030313a6462383a3a315d3a323200", "", Begin{"2001:db8::1", 22, 0}, ParseBegin, app)
	for s, want := range map[string]string{
		"[::]!\x00":                         "not HOST:PORT",
		"[::]:80":                           "no end",
		"torproject\u2122.org:443\x00":      "byte 0xe2 in host",
		"host\x00":                          "not HOST:PORT",
		"host:0\x00":                        "not a number from 1 to 65535",
		"host:65536\x00":                    "not a number from 1 to 65535",
		"host:+1\x00":                       "not a number from 1 to 65535",
		"host:\x00":                         "not a number from 1 to 65535",
		":80\x00":                           "host of 0 bytes",
		"[host]:80\x00":                     "not HOST:PORT",
		"[1:2]:80\x00":                      "neither a name nor an address",
		"[fe80::1%lo]:80\x00":               "neither a name nor an address",
		"a b:80\x00":                        "byte 0x20 in host",
		strings.Repeat("a", 256) + ":1\x00": "host of 256 bytes",
	} {
		refuse(t, hex.EncodeToString([]byte(s)), want, ParseBegin)
	}
	for body, want := range map[string]uint16{":80\x00": 80, "x.onion:443\x00\x00\x00\x00\x01": 443, "[::1]:1\x00": 1} {
		if m, err := ParseOnionBegin([]byte(body)); err != nil || m != (Begin{Port: want}) {
			t.Errorf("%q: %v %v", body, m, err)
		}
	}
	for body, want := range map[string]string{
		":80": "no end", "80\x00": "not HOST:PORT", ":0\x00": "from 1 to 65535", ":\x00": "from 1 to 65535", "": "no end",
	} {
		refuse(t, hex.EncodeToString([]byte(body)), want, ParseOnionBegin)
	}
	if m, err := NewOnionBegin(80); err != nil || string(m.Append(nil)) != ":80\x00" {
		t.Error(m, err)
	}
	if m, err := ParseOnionBegin([]byte(":80\x00\xff\xff\xff\xff")); err != nil || m.Flags != BeginHalfClose {
		t.Error(m, err)
	}
	if _, err := NewOnionBegin(0); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	if m, err := NewBegin("example.com", 80, BeginIPv6OK); err != nil || m.Host != "example.com" {
		t.Error(err)
	}
	for _, h := range []string{"", "a\x00b", "a b", "::1%eth0", "a:b", "[::1]", strings.Repeat("a", 256)} {
		if _, err := NewBegin(h, 80, 0); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", h, err)
		}
	}
	if _, err := NewBegin("a", 0, 0); err == nil {
		t.Error("port 0")
	}
}

func TestConnected(t *testing.T) {
	app := func(m Connected, b []byte) []byte { return m.Append(b) }
	check(t, "CONNECTED", "", "", Connected{netip.Addr{}, TTLUnknown}, ParseConnected, app)
	check(t, "CONNECTED", "7F000001 00000E10", "", Connected{addr("127.0.0.1"), 0xe10}, ParseConnected, app)
	check(t, "CONNECTED", "7F000001", "7F000001 FFFFFFFF", Connected{addr("127.0.0.1"), TTLUnknown}, ParseConnected, app)
	check(t, "CONNECTED", "00000000 06 20010db8 00000000 00000000 00001122 00000E10", "", Connected{addr("2001:db8::1122"), 0xe10}, ParseConnected, app)
	refuse(t, "00000000 07 20010db8 00000000 00000000 00001122 00000E10", "address type 7 is not 6", ParseConnected)
	refuse(t, "7f0000", "4 bytes wanted, 3 left", ParseConnected)
	refuse(t, "00000000 06 20010db8", "16 bytes wanted, 4 left", ParseConnected)
}

func parseEnd(b []byte) (End, error) { return ParseEnd(b), nil }

func TestEnd(t *testing.T) {
	app := func(m End, b []byte) []byte { return m.Append(b) }
	check(t, "END", "01", "", End{Reason: EndMisc, TTL: TTLUnknown}, parseEnd, app)
	check(t, "END", "06", "", End{Reason: EndDone, TTL: TTLUnknown}, parseEnd, app)
	check(t, "END", "", "01", End{Reason: EndMisc, TTL: TTLUnknown}, parseEnd, app)
	check(t, "END", "04", "", End{Reason: EndExitPolicy, TTL: TTLUnknown}, parseEnd, app)
	check(t, "END", "04 7f000007 00000100", "", End{EndExitPolicy, addr("127.0.0.7"), 256}, parseEnd, app)
	check(t, "END", "04 20010db8 00000000 00000000 0000f00b 00000200", "", End{EndExitPolicy, addr("2001:db8::f00b"), 512}, parseEnd, app)
	check(t, "END", "04 7f000007", "04 7f000007 ffffffff", End{EndExitPolicy, addr("127.0.0.7"), TTLUnknown}, parseEnd, app)
}

func TestExtend(t *testing.T) {
	hs := "03479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E36A3E0BDB1F1A10579820243DD2E228B902940EB49EF842646E3926768C28410074BEE50A535116D657C6BFB7E5114119DC69F05DF907EF62002EA782B0A357F"
	specs := "02 00 06 7F0000011388 02 14 03479E93EBF3FF2C58C1C9DBF2DE9DE9C2801B3E"
	check(t, "EXTEND2", specs+"0002 0054"+hs, "", Extend2{unhex(t, specs), HandshakeNtor, unhex(t, hs)}, ParseExtend2, func(m Extend2, b []byte) []byte { return m.Append(b) })
	refuse(t, "02 00 06 7F0000011388", "1 bytes wanted, 0 left", ParseExtend2)
	refuse(t, "00 0002 0002 01", "2 bytes wanted, 1 left", ParseExtend2)
	reply := "0026619058EB2661834D54C2624828728F28915587CDAD1AD3373B85F33A480EEA9D3B2CEF8D39C1DBD2FA519E75296B96960690C79A28D6A0D9454F8E9634BD"
	check(t, "EXTENDED2", "0040"+reply, "", Extended2{unhex(t, reply)}, ParseExtended2, func(m Extended2, b []byte) []byte { return m.Append(b) })
	refuse(t, "0041"+reply, "65 bytes wanted, 64 left", ParseExtended2)
	check(t, "TRUNCATED", "08", "", Truncated{DestroyChannelClosed}, ParseTruncated, func(m Truncated, b []byte) []byte { return m.Append(b) })
	refuse(t, "", "1 bytes wanted", ParseTruncated)
}

func TestResolve(t *testing.T) {
	for name, m := range map[string]Resolve{
		"www.torproject.org":     {"www.torproject.org"},
		"1.0.0.127.in-addr.arpa": {ReverseName(addr("127.0.0.1"))},
		"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.2.ip6.arpa": {ReverseName(addr("2001::"))},
	} {
		check(t, "RESOLVE", hex.EncodeToString([]byte(name+"\x00")), "", m, ParseResolve, func(m Resolve, b []byte) []byte { return m.Append(b) })
	}
	refuse(t, "6161", "no end", ParseResolve)
	refuse(t, "00", "host of 0 bytes", ParseResolve)
	refuse(t, "611000", "byte 0x10", ParseResolve)
	if _, err := NewResolve("a\x00b"); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	if m, err := NewResolve("example.com"); err != nil || m.Name != "example.com" {
		t.Error(err)
	}
}

func TestResolved(t *testing.T) {
	host := []byte("www.torproject.org")
	for s, m := range map[string]Resolved{
		"":               nil,
		"F0 00 00000E10": {{Type: AnswerErrorTransient, Text: []byte{}, TTL: 3600}},
		"F1 00 00000E10": {{Type: AnswerError, Text: []byte{}, TTL: 3600}},
		"04 04 7f000001 00000E10 04 04 7f000002 00001c20": {
			{Type: AnswerIPv4, Addr: addr("127.0.0.1"), TTL: 3600}, {Type: AnswerIPv4, Addr: addr("127.0.0.2"), TTL: 7200}},
		"06 10 12340000000000000000000000005678 00000080":     {{Type: AnswerIPv6, Addr: addr("1234::5678"), TTL: 128}},
		"00 12 7777772e746f7270726f6a6563742e6f7267 00000258": {{Type: AnswerHostname, Text: host, TTL: 600}},
		"63 12 7777772e746f7270726f6a6563742e6f7267 00000258": {{Type: 99, Text: host, TTL: 600}},
	} {
		check(t, "RESOLVED", s, "", m, ParseResolved, appendResolved)
	}
	refuse(t, "04 03 7f0000 00000000", "address of type 4 has 3 bytes", ParseResolved)
	refuse(t, "06 04 7f000001 00000000", "address of type 6 has 4 bytes", ParseResolved)
	refuse(t, "04 04 7f000001 0000", "4 bytes wanted, 2 left", ParseResolved)
	refuse(t, "04", "1 bytes wanted, 0 left", ParseResolved)
	long := Resolved{{Type: AnswerHostname, Text: make([]byte, 256)}}
	if b, err := long.Append(nil); !fault.Is(err, fault.Local) {
		t.Errorf("a text that does not fit: %d bytes, %v", len(b), err)
	}
}

// appendResolved is Append for messages that were parsed, which must fit.
func appendResolved(m Resolved, dst []byte) []byte {
	b, err := m.Append(dst)
	if err != nil {
		panic(err)
	}
	return b
}

func TestFlow(t *testing.T) {
	app := func(m Sendme, b []byte) []byte { return m.Append(b) }
	tag := strings.Repeat("5a", 20)
	check(t, "SENDME", "", "", Sendme{}, ParseSendme, app)
	check(t, "SENDME", "00", "", Sendme{}, parseSendmeCanon, app0)
	check(t, "SENDME", "01 0014"+tag, "", Sendme{1, unhex(t, tag)}, ParseSendme, app)
	check(t, "SENDME", "01 0010"+tag[:32]+"ff", "01 0010"+tag[:32], Sendme{1, unhex(t, tag[:32])}, ParseSendme, app)
	refuse(t, "02", "unknown version 2", ParseSendme)
	refuse(t, "01 0013"+tag, "tag of 19 bytes", ParseSendme)
	refuse(t, "01 0014"+tag[2:], "20 bytes wanted, 19 left", ParseSendme)
	check(t, "XOFF", "00", "", Xoff{}, ParseXoff, func(m Xoff, b []byte) []byte { return m.Append(b) })
	refuse(t, "01", "unknown version 1", ParseXoff)
	refuse(t, "", "1 bytes wanted", ParseXoff)
	check(t, "XON", "00 00010000", "", Xon{65536}, ParseXon, func(m Xon, b []byte) []byte { return m.Append(b) })
	refuse(t, "01 00010000", "unknown version 1", ParseXon)
	refuse(t, "00 0001", "4 bytes wanted", ParseXon)
}

// Version 0 may be written out; what is sent is empty.
func parseSendmeCanon(b []byte) (Sendme, error) { return ParseSendme(b) }
func app0(m Sendme, b []byte) []byte            { return append(m.Append(b), 0) }

func TestConflux(t *testing.T) {
	n := strings.Repeat("77", 32)
	m := ConfluxLink{[32]byte(unhex(t, n)), 5, 6, ConfluxHighThroughput}
	check(t, "CONFLUX_LINK", "01"+n+"0000000000000005 0000000000000006 03", "", m, ParseConfluxLink, func(m ConfluxLink, b []byte) []byte { return m.Append(b) })
	refuse(t, "02"+n+"0000000000000005 0000000000000006 03", "unknown version 2", ParseConfluxLink)
	refuse(t, "01"+n+"0000000000000005 0000000000000006", "1 bytes wanted", ParseConfluxLink)
	check(t, "CONFLUX_SWITCH", "00000102", "", ConfluxSwitch{0x102}, ParseConfluxSwitch, func(m ConfluxSwitch, b []byte) []byte { return m.Append(b) })
	refuse(t, "000001", "4 bytes wanted", ParseConfluxSwitch)
}

func TestPadding(t *testing.T) {
	check(t, "PADDING_NEGOTIATE", "00 02 05dc 251c", "", PaddingNegotiate{PaddingStart, 1500, 9500}, ParsePaddingNegotiate, func(m PaddingNegotiate, b []byte) []byte { return m.Append(b) })
	refuse(t, "01 02 05dc 251c", "unknown version 1", ParsePaddingNegotiate)
	refuse(t, "00 03 05dc 251c", "unknown command 3", ParsePaddingNegotiate)
	refuse(t, "00 02 05dc", "2 bytes wanted", ParsePaddingNegotiate)
	// Bodies that C tor sent, from Arti's tor-cell.
	check(t, "PADDING_NEGOTIATE", "00 02 00 00 00000001", "", CircPaddingNegotiate{PaddingStart, 0, 1}, ParseCircPaddingNegotiate, func(m CircPaddingNegotiate, b []byte) []byte { return m.Append(b) })
	for s, m := range map[string]CircPaddingNegotiated{
		"0001010000000001": {PaddingStop, true, 0, 1},
		"0002010000000001": {PaddingStart, true, 0, 1},
		"0002010100000001": {PaddingStart, true, 1, 1},
		"0002020100000001": {PaddingStart, false, 1, 1},
	} {
		check(t, "PADDING_NEGOTIATED", s, "", m, ParseCircPaddingNegotiated, func(m CircPaddingNegotiated, b []byte) []byte { return m.Append(b) })
	}
	refuse(t, "0002030100000001", "unknown response 3", ParseCircPaddingNegotiated)
	refuse(t, "00020000000001", "4 bytes wanted", ParseCircPaddingNegotiate)
}

func TestExts(t *testing.T) {
	exts := []Ext{{1, []byte{}}, {3, []byte{2, 6}}}
	check(t, "extensions", "02 01 00 03 02 0206", "", exts, ParseExts, func(m []Ext, b []byte) []byte { return AppendExts(b, m) })
	refuse(t, "01 01 00 00", "1 bytes left over", ParseExts)
	// The first of several fields of one type counts.
	if twice, err := ParseExts(unhex(t, "02 02 01 1f 02 01 20")); err != nil || len(twice) != 2 {
		t.Error(twice, err)
	} else if b, ok := FindExt(twice, ExtCCResponse); !ok || b[0] != 31 {
		t.Error(b)
	}
	refuse(t, "02 01 00", "1 bytes wanted", ParseExts)
	refuse(t, "", "1 bytes wanted", ParseExts)
	made := AppendExts(nil, []Ext{CCRequest(), SubprotoRequest(Subproto{SubprotoRelay, 6})})
	if !bytes.Equal(made, unhex(t, "02 01 00 03 02 0206")) {
		t.Errorf("% x", made)
	}
	if b, ok := FindExt(exts, ExtSubprotoRequest); !ok || !bytes.Equal(b, []byte{2, 6}) {
		t.Error("find")
	}
	if _, ok := FindExt(exts, 2); ok {
		t.Error("found what is not there")
	}
	if n, err := ParseCCResponse(CCResponse(31).Body); n != 31 || err != nil {
		t.Error(n, err)
	}
	refuse(t, "00", "increment of 0", ParseCCResponse)
	refuse(t, "", "1 bytes wanted", ParseCCResponse)
	// Arti's tor-cell, relaycell/extend.rs.
	check(t, "subprotocol request", "0004 0204", "", []Subproto{{SubprotoLink, 4}, {SubprotoRelay, 4}}, ParseSubprotoRequest, func(m []Subproto, b []byte) []byte { return append(b, SubprotoRequest(m...).Body...) })
	refuse(t, "000402", "1 bytes wanted", ParseSubprotoRequest)
	refuse(t, "00040004", "not sorted", ParseSubprotoRequest)
	refuse(t, "02040004", "not sorted", ParseSubprotoRequest)
}
