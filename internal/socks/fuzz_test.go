package socks

import (
	"bufio"
	"bytes"
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/isolation"
	"golang.org/x/net/dns/dnsmessage"
)

// FuzzSOCKS reads a request of either version and checks what the rest of the
// program relies on: no more is read than the request has, names are within
// bounds once checked, and a reply is well formed.
func FuzzSOCKS(f *testing.F) {
	f.Add(byte(4), []byte{1, 0, 80, 0, 0, 0, 1, 'u', 0, 'h', 0})
	f.Add(byte(5), request5(1, "host.test", 80)[1:])
	f.Add(byte(5), []byte{0xF1, 0, 1, 192, 0, 2, 1, 0, 0})
	f.Fuzz(func(t *testing.T, version byte, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		read := readSOCKS5
		if version == 4 {
			read = readSOCKS4
		}
		c, err := read(r)
		if err != nil {
			return
		}
		if used := len(b) - r.Buffered(); used > 7+maxUserID+1+maxHost+1 {
			t.Fatalf("a request of %d bytes", used)
		}
		host, err := parseHost(c.host)
		if err != nil {
			return
		}
		if again, err := parseHost(host); err != nil || again != host || len(host) > maxHost {
			t.Fatalf("%q became %q, then %q (%v)", c.host, host, again, err)
		}
		reply := appendReply5(nil, rep5OK, Answer{Name: host})
		if len(reply) != 7+len(host) {
			t.Fatalf("reply %x", reply)
		}
	})
}

// FuzzGreeting reads the messages before a SOCKS 5 request.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte{1, 0}, []byte{1, 'u', 1, 'p'})
	f.Add([]byte{2, 0, 2}, []byte{0, 0})
	f.Fuzz(func(t *testing.T, methods, auth []byte) {
		m, err := readMethods(bufio.NewReader(bytes.NewReader(methods)), len(auth)%2 == 1)
		if err == nil && m != methodRefused && !bytes.Contains(methods[1:], []byte{m}) {
			t.Fatalf("chose %d of %x", m, methods)
		}
		user, pass, err := readUserPass(bufio.NewReader(bytes.NewReader(auth)))
		if err == nil && 2+len(user)+len(pass) > len(auth) {
			t.Fatal("read more than there is")
		}
		if isolation.NewAuth(user, pass) == isolation.NewAuth(user+pass, "") && pass != "" {
			t.Fatal("two credentials look alike")
		}
	})
}

// FuzzHTTPHead reads a request's head and checks that what follows it stays.
func FuzzHTTPHead(f *testing.F) {
	f.Add([]byte("CONNECT host:80 HTTP/1.1\r\nHost: host\r\n\r\nrest"))
	f.Add([]byte("OPTIONS * HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		br := bufio.NewReaderSize(bytes.NewReader(b), handshakeBuffer)
		if _, err := readHead(br); err != nil {
			return
		}
		rest := new(bytes.Buffer)
		br.WriteTo(rest)
		end := bytes.Index(b, []byte("\r\n\r\n")) + 4
		if !bytes.Equal(rest.Bytes(), b[end:]) {
			t.Fatalf("%q is left, not %q", rest, b[end:])
		}
	})
}

// FuzzDNS reads a query and packs an answer, which must parse, fit and repeat
// the question.
func FuzzDNS(f *testing.F) {
	f.Add(ask(f, "host.test.", dnsmessage.TypeA))
	f.Add(ask(f, "1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR))
	f.Add(ask(f, "host.test.", dnsmessage.TypeMX))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseQuery(b)
		if err != nil {
			return
		}
		answers := []Answer{{Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.IPv6Loopback()}, {Name: "a.b"}}
		out, err := q.appendAnswer(answers, q.rcode, q.limit)
		if err != nil {
			t.Fatalf("no answer to %x: %v", b, err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil {
			t.Fatal(err)
		}
		if len(out) > q.limit || m.ID != q.header.ID || q.asked && (len(m.Questions) != 1 || m.Questions[0] != q.question) {
			t.Fatalf("%d bytes: %+v", len(out), m)
		}
	})
}
