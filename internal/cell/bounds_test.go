package cell

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

// TestHosts: the longest host and the outermost characters pass, what is one more does not.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{strings.Repeat("a", MaxHostLen), true}, {strings.Repeat("a", MaxHostLen+1), false}, {"", false},
		{"a!", true}, {"a ", false}, {"a~", true}, {"a\x7f", false}, {"a\x80", false},
	} {
		if _, err := NewBegin(c.host, 80, 0); (err == nil) != c.ok {
			t.Errorf("BEGIN %q: %v", c.host, err)
		}
		if _, err := NewResolve(c.host); (err == nil) != c.ok {
			t.Errorf("RESOLVE %q: %v", c.host, err)
		}
	}
}

// TestLengths: what is as long as its field can hold is written, and comes back; one more is a mistake of ours.
func TestLengths(t *testing.T) {
	full := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
	if c := AppendFixed(nil, 1, CmdRelay, full(PayloadLen)); len(c) != Len || !bytes.Equal(Body(c), full(PayloadLen)) {
		t.Errorf("the longest payload: %d bytes", len(c))
	}
	mustPanic(t, "payload", func() { AppendFixed(nil, 1, CmdRelay, full(PayloadLen+1)) })

	certs := make(Certs, 255)
	for i := range certs {
		certs[i] = Cert{Type: uint8(i), Body: []byte{1}}
	}
	if got, err := ParseCerts(certs.Append(nil)); err != nil || len(got) != 255 {
		t.Errorf("255 certificates: %d, %v", len(got), err)
	}
	mustPanic(t, "256 certificates", func() { append(certs, Cert{}).Append(nil) })
	longest := Certs{{Type: 1, Body: full(0xffff)}}
	if got, err := ParseCerts(longest.Append(nil)); err != nil || len(got[0].Body) != 0xffff {
		t.Errorf("a certificate of 65535 bytes: %v", err)
	}

	exts := make([]Ext, 255)
	exts[0].Body = full(255)
	if got, err := ParseExts(AppendExts(nil, exts)); err != nil || len(got) != 255 || len(got[0].Body) != 255 {
		t.Errorf("255 extensions: %d, %v", len(got), err)
	}
	mustPanic(t, "256 extensions", func() { AppendExts(nil, make([]Ext, 256)) })

	m := AuthChallenge{Methods: make([]uint16, 0xffff)}
	if got, err := ParseAuthChallenge(m.Append(nil)); err != nil || len(got.Methods) != 0xffff {
		t.Errorf("65535 methods: %d, %v", len(got.Methods), err)
	}
	m.Methods = append(m.Methods, 3)
	mustPanic(t, "65536 methods", func() { m.Append(nil) })

	n := Netinfo{Mine: make([]netip.Addr, 255)}
	for i := range n.Mine {
		n.Mine[i] = addr("192.0.2.1")
	}
	if got, err := ParseNetinfo(n.Append(nil)); err != nil || len(got.Mine) != 255 {
		t.Errorf("255 addresses: %d, %v", len(got.Mine), err)
	}
	n.Mine = append(n.Mine, addr("192.0.2.1"))
	mustPanic(t, "256 addresses", func() { n.Append(nil) })

	r := Resolved{{Type: AnswerHostname, Text: full(255)}}
	if b, err := r.Append(nil); err != nil {
		t.Error("a text of 255 bytes:", err)
	} else if got, err := ParseResolved(b); err != nil || len(got[0].Text) != 255 {
		t.Error("a text of 255 bytes:", err)
	}
	r[0].Text = full(256)
	if _, err := r.Append(nil); err == nil {
		t.Error("a text of 256 bytes is written")
	}
}

// TestLongMessages: a long message of MaxLong bytes is read, and a longer one is refused.
func TestLongMessages(t *testing.T) {
	for _, c := range []struct {
		n  int
		ok bool
	}{{MaxLong, true}, {MaxLong + 1, false}} {
		m := Created2{Data: make([]byte, c.n-2)}
		if _, err := ParseLongCreated2(m.Append(nil)); (err == nil) != c.ok {
			t.Errorf("%d bytes: %v", c.n, err)
		}
	}
	if _, err := ParseLongCreated2([]byte{0, 2, 1}); err == nil {
		t.Error("a LONG_CREATED2 that is cut off is read")
	}
}

// TestSizeOfShort: cells of just enough bytes have a size.
func TestSizeOfShort(t *testing.T) {
	fixed, variable := make([]byte, HeaderLen), make([]byte, VarHeaderLen)
	PutHeader(fixed, 0x01020304, CmdRelay)
	PutHeader(variable, 1, CmdVPadding)
	variable[6] = 9
	if CircID(fixed) != 0x01020304 || Size(fixed) != Len || Size(fixed[:HeaderLen-1]) != 0 {
		t.Errorf("fixed: circuit %#x, size %d", CircID(fixed), Size(fixed))
	}
	if Size(variable) != VarHeaderLen+9 || Size(variable[:VarHeaderLen-1]) != 0 {
		t.Errorf("variable: %d", Size(variable))
	}
}

// TestNetinfoAddresses: an address counts only if its length fits its type, and an IPv4 address is written
// as one, whatever form it has here.
func TestNetinfoAddresses(t *testing.T) {
	read := func(typ byte, n int) netip.Addr {
		b := append([]byte{0, 0, 0, 0, typ, byte(n)}, bytes.Repeat([]byte{9}, n)...)
		m, err := ParseNetinfo(append(b, 0))
		if err != nil {
			t.Error(typ, n, err)
		}
		return m.Other
	}
	for _, c := range []struct {
		typ  byte
		n    int
		want netip.Addr
	}{{4, 4, addr("9.9.9.9")}, {6, 16, addr("909:909:909:909:909:909:909:909")}, {4, 16, netip.Addr{}}, {6, 4, netip.Addr{}}, {4, 5, netip.Addr{}}, {5, 4, netip.Addr{}}, {5, 16, netip.Addr{}}} {
		if got := read(c.typ, c.n); got != c.want {
			t.Errorf("type %d of %d bytes: %v", c.typ, c.n, got)
		}
	}
	m := Netinfo{Other: addr("::ffff:192.0.2.1")}
	if b := m.Append(nil); !bytes.Equal(b[4:10], []byte{4, 4, 192, 0, 2, 1}) {
		t.Errorf("a mapped address: %x", b)
	}
}

// TestReverseNames: names of addresses, there and back, and names that only look like that.
func TestReverseNames(t *testing.T) {
	const six = "8.b.d.0.1.0.0.2.ip6.arpa"
	for a, name := range map[string]string{
		"192.0.2.17":  "17.2.0.192.in-addr.arpa",
		"2001:db8::1": "1." + strings.Repeat("0.", 23) + six,
	} {
		if got := ReverseName(addr(a)); got != name {
			t.Errorf("%s: %s", a, got)
		}
		for _, n := range []string{name, strings.ToUpper(name)} {
			if got, ok := ParseReverseName(n); !ok || got != addr(a) {
				t.Errorf("%s: %v, %v", n, got, ok)
			}
		}
	}
	if got := ReverseName(addr("::ffff:192.0.2.17")); got != "17.2.0.192.in-addr.arpa" {
		t.Error("a mapped address:", got)
	}
	for _, name := range []string{
		"", "example.com", "2.0.192.in-addr.arpa", "1.17.2.0.192.in-addr.arpa", "256.2.0.192.in-addr.arpa", "x.2.0.192.in-addr.arpa",
		strings.Repeat("0.", 23) + six, "0." + strings.Repeat("0.", 24) + six, "g." + strings.Repeat("0.", 23) + six, "00." + strings.Repeat("0.", 23) + six,
		"." + strings.Repeat("0.", 23) + six, "1." + strings.Repeat("0.", 23) + "8.b.d.0.1.0.0.2.ip6.example",
	} {
		if got, ok := ParseReverseName(name); ok {
			t.Errorf("%q is %v", name, got)
		}
	}
}

// TestIntroDoSZero: a rate of 0 is a parameter, and a negative one is none.
func TestIntroDoSZero(t *testing.T) {
	for _, m := range []IntroDoS{{0, 0}, {0, -1}, {-1, 0}} {
		if got, err := ParseIntroDoS(m.Ext().Body); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
}

// TestEndLengths: an END for the exit policy has an IPv6 address if that many bytes are there, with or without
// a time, and else an IPv4 address.
func TestEndLengths(t *testing.T) {
	six := append([]byte{byte(EndExitPolicy)}, addr("2001:db8::1").AsSlice()...)
	for _, c := range []struct {
		n    int
		want End
	}{
		{17, End{EndExitPolicy, addr("2001:db8::1"), TTLUnknown}}, {16, End{EndExitPolicy, addr("32.1.13.184"), 0}},
		{5, End{EndExitPolicy, addr("32.1.13.184"), TTLUnknown}}, {4, End{EndExitPolicy, netip.Addr{}, TTLUnknown}},
	} {
		if got := ParseEnd(six[:c.n]); got != c.want {
			t.Errorf("%d bytes: %+v", c.n, got)
		}
	}
}
