package socks

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/fault"
)

// ask packs a query.
func ask(t testing.TB, name string, typ dnsmessage.Type, change ...func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 0x1234, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}},
	}
	for _, f := range change {
		f(&m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dnsNetwork() *network {
	many := make([]Answer, 60)
	for i := range many {
		many[i] = Answer{Addr: netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}), TTL: 1}
	}
	return &network{
		names: map[string][]Answer{
			"Host.Test":   {{Addr: netip.MustParseAddr("192.0.2.1"), TTL: 60}, {Addr: netip.MustParseAddr("2001:db8::1"), TTL: 30}},
			"192.0.2.1":   {{Name: "host.test", TTL: 5}},
			"2001:db8::1": {{Name: "six.test", TTL: 5}},
			"many":        many,
			"badname.in":  {{Name: strings.Repeat("x", 300)}},
		},
		fail: map[string]error{"refused": fault.New(fault.Refused, "no"), "broken": fault.New(fault.Network, "no")},
	}
}

// exchange asks over UDP.
func exchange(t *testing.T, port string, query []byte) dnsmessage.Message {
	t.Helper()
	c, err := net.Dial("udp", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	c.Write(query)
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(b[:n]); err != nil {
		t.Fatal(err)
	}
	return m
}

func startUDP(t *testing.T, s *Server) string {
	t.Helper()
	pc, err := ListenPacket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return pc.LocalAddr().String()
}

func TestDNSAnswers(t *testing.T) {
	port := startUDP(t, NewDNS(Config{Dialer: dnsNetwork()}))
	six := strings.Repeat("0.", 23) // 2001:db8::1, backwards
	for _, tt := range []struct {
		name  string
		typ   dnsmessage.Type
		rcode dnsmessage.RCode
		want  string // the answer's text, without its header
	}{
		{"Host.Test.", dnsmessage.TypeA, 0, "192.0.2.1"},
		{"Host.Test.", dnsmessage.TypeAAAA, 0, "2001:db8::1"},
		{"1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR, 0, "host.test."},
		{"1." + six + "8.b.d.0.1.0.0.2.ip6.arpa.", dnsmessage.TypePTR, 0, "six.test."},
		{"nowhere.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"refused.", dnsmessage.TypeA, dnsmessage.RCodeRefused, ""},
		{"broken.", dnsmessage.TypeAAAA, dnsmessage.RCodeServerFailure, ""},
		{"x.onion.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"x.ONION.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"sp ace.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"1.2.3.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"256.2.0.192.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"g." + six + "8.b.d.0.1.0.0.2.ip6.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"host.test.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"Host.Test.", dnsmessage.TypeMX, dnsmessage.RCodeNotImplemented, ""},
		{"Host.Test.", dnsmessage.TypeTXT, dnsmessage.RCodeNotImplemented, ""},
		{"badname.in.", dnsmessage.TypeA, 0, ""},
	} {
		m := exchange(t, port, ask(t, tt.name, tt.typ))
		got := ""
		if len(m.Answers) > 0 {
			switch b := m.Answers[0].Body.(type) {
			case *dnsmessage.AResource:
				got = netip.AddrFrom4(b.A).String()
			case *dnsmessage.AAAAResource:
				got = netip.AddrFrom16(b.AAAA).String()
			case *dnsmessage.PTRResource:
				got = b.PTR.String()
			}
		}
		if m.RCode != tt.rcode || got != tt.want || m.ID != 0x1234 || !m.Response || !m.RecursionAvailable || len(m.Answers) > 1 ||
			len(m.Questions) != 1 || m.Questions[0].Name.String() != tt.name {
			t.Errorf("%s %v: %v %q (%d answers)", tt.name, tt.typ, m.RCode, got, len(m.Answers))
		}
	}
}

func TestDNSRefusals(t *testing.T) {
	port := startUDP(t, NewDNS(Config{Dialer: dnsNetwork()}))
	for name, tt := range map[string]struct {
		change func(*dnsmessage.Message)
		rcode  dnsmessage.RCode
	}{
		"opcode":        {func(m *dnsmessage.Message) { m.OpCode = 4 }, dnsmessage.RCodeNotImplemented},
		"class":         {func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }, dnsmessage.RCodeNotImplemented},
		"two questions": {func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }, dnsmessage.RCodeFormatError},
		"no question":   {func(m *dnsmessage.Message) { m.Questions = nil }, dnsmessage.RCodeFormatError},
	} {
		if m := exchange(t, port, ask(t, "Host.Test.", dnsmessage.TypeA, tt.change)); m.RCode != tt.rcode || len(m.Answers) != 0 {
			t.Errorf("%s: %v", name, m.RCode)
		}
	}
	for name, b := range map[string][]byte{
		"response": ask(t, "a.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true }),
		"short":    {1, 2, 3},
	} {
		if _, err := parseQuery(b); !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDNSWebPage: a page in a browser has that send HTTP requests, or connect by TLS. The lookups in them are not made.
func TestDNSWebPage(t *testing.T) {
	lookup := ask(t, "tracker.test.", dnsmessage.TypeA)
	lookup = append(binary.BigEndian.AppendUint16(nil, uint16(len(lookup))), lookup...)
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"GET /\x00\x00 HTTP/1.1\r\n\r\n",
		"\x16\x03\x01\x06\x00\x01\x00\x05\xfc\x03\x03",
	} {
		n := &network{}
		port := start(t, NewDNS(Config{Dialer: n, HandshakeTimeout: time.Hour}))
		c, err := net.Dial("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		first := 2 + int(binary.BigEndian.Uint16([]byte(head)))
		request := append([]byte(head), make([]byte, first-len(head))...)
		c.Write(append(request, lookup...))
		c.SetDeadline(time.Now().Add(time.Minute))
		// An answer to the first message, and the end or, as not all was read, a reset.
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("%.4q: the connection stays open", head)
		}
		if got := n.requests(); len(got) != 0 {
			t.Errorf("%.4q: the network was asked: %+v", head, got)
		}
	}
}

func TestDNSTruncation(t *testing.T) {
	s := NewDNS(Config{Dialer: dnsNetwork()})
	udp, tcp := startUDP(t, s), start(t, s)
	plain := ask(t, "many.", dnsmessage.TypeAAAA)
	if m := exchange(t, udp, plain); !m.Truncated || len(m.Answers) == 0 {
		t.Errorf("%d answers, truncated %v", len(m.Answers), m.Truncated)
	}
	edns := ask(t, "many.", dnsmessage.TypeAAAA, func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		h.SetEDNS0(4096, 0, false)
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	})
	if m := exchange(t, udp, edns); m.Truncated || len(m.Answers) != maxAnswers {
		t.Errorf("with EDNS: %d answers, truncated %v", len(m.Answers), m.Truncated)
	}
	c := dialTCP(t, tcp)
	for range 2 { // two questions on one connection
		say(t, c, append(binary.BigEndian.AppendUint16(nil, uint16(len(plain))), plain...)...)
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(b); err != nil || m.Truncated || len(m.Answers) != maxAnswers {
			t.Errorf("TCP: %v, %d answers", err, len(m.Answers))
		}
	}
}

// TestDNSStdlib: Go's own resolver is a client that nobody here wrote.
func TestDNSStdlib(t *testing.T) {
	port := startUDP(t, NewDNS(Config{Dialer: dnsNetwork()}))
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", port)
	}}
	addrs, err := r.LookupHost(t.Context(), "Host.Test.")
	if err != nil || len(addrs) != 2 {
		t.Errorf("%v %v", addrs, err)
	}
	names, err := r.LookupAddr(t.Context(), "192.0.2.1")
	if err != nil || len(names) != 1 || names[0] != "host.test." {
		t.Errorf("%v %v", names, err)
	}
	var dnsErr *net.DNSError
	if _, err := r.LookupHost(t.Context(), "nowhere."); !errors.As(err, &dnsErr) || !dnsErr.IsNotFound {
		t.Errorf("%v", err)
	}
}
