package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

func TestParse(t *testing.T) {
	for text, url := range map[string]string{
		"socks5://192.0.2.1:1080":              "socks5://192.0.2.1:1080",
		"socks5://localhost:1080/":             "socks5://127.0.0.1:1080",
		"socks5://u%40x:p%3Aw@[2001:db8::1]:9": "socks5://u%40x:p%3Aw@[2001:db8::1]:9",
		"socks5://u:p@[::ffff:192.0.2.1]:9":    "socks5://u:p@192.0.2.1:9",
		"socks4://u@192.0.2.1:1080":            "socks4a://u@192.0.2.1:1080",
		"socks4a://192.0.2.1:1080":             "socks4a://192.0.2.1:1080",
		"http://192.0.2.1:3128":                "http://192.0.2.1:3128",
		"http://u:@192.0.2.1:3128":             "http://u@192.0.2.1:3128",
		"HTTP://u:p@192.0.2.1:3128":            "http://u:p@192.0.2.1:3128",
	} {
		p, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.URL().String(); got != url {
			t.Errorf("%s: %s, want %s", text, got, url)
		}
	}
	for text, want := range map[string]string{
		"":                                        "not a URL",
		"192.0.2.1:1080":                          "not a URL",
		"socks5:192.0.2.1:1080":                   "not a URL",
		"socks5://secret:hush@%zz:1":              "not a URL",
		"https://secret:hush@192.0.2.1:1":         "does not speak TLS",
		"ftp://secret:hush@192.0.2.1:1":           "not socks4, socks5 or http",
		"socks5://secret:hush@192.0.2.1":          "port is missing",
		"socks5://192.0.2.1:0":                    "port is missing",
		"socks5://192.0.2.1:99999":                "port is missing",
		"socks5://secret:hush@proxy.example:1080": "is a name",
		"socks5://secret:hush@192.0.2.1:1/x":      "more than scheme",
		"socks5://192.0.2.1:1?x":                  "more than scheme",
		"socks5://192.0.2.1:1#x":                  "more than scheme",
		"socks5://secret@192.0.2.1:1":             "the password has 0 bytes",
		"socks5://:hush@192.0.2.1:1":              "the user name has 0 bytes",
		"socks5://secret:" + strings.Repeat("x", 256) + "@192.0.2.1:1": "the password has 256 bytes",
		"socks4://secret:hush@192.0.2.1:1":                             "no passwords",
		"socks4://secret%00@192.0.2.1:1":                               "zero byte",
		"http://:hush@192.0.2.1:1":                                     "user name is empty",
		"http://secret%3Ax:hush@192.0.2.1:1":                           "colon",
	} {
		_, err := Parse(text)
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%s: the error tells the password: %v", text, err)
		}
	}
}

// TestNoSecrets: however a proxy is printed, neither its address nor its password shows.
func TestNoSecrets(t *testing.T) {
	p, err := Parse("socks5://secret:hush@192.0.2.77:1080")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "proxy", p)
	all := fmt.Sprintf("%v %+v %#v %s %q", p, p, p, p, p) + log.String()
	_, err = p.Dial(t.Context(), func(context.Context, netip.AddrPort) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 77)}, Err: errors.New("connection refused")}
	}, "198.51.100.9", 443)
	all += err.Error()
	for _, s := range []string{"secret", "hush", "192.0.2.77", "198.51.100.9"} {
		if strings.Contains(all, s) {
			t.Errorf("%q is in %s", s, all)
		}
	}
	if want := "the SOCKS 5 proxy cannot be reached: connection refused"; err.Error() != want || !fault.Is(err, fault.Network) {
		t.Errorf("%v, want %s", err, want)
	}
}

// talk dials through a proxy that hears what it expects, and answers. The parts of the
// script take turns: what must arrive, then what is sent.
func talk(t *testing.T, url, host string, script ...string) (net.Conn, error) {
	t.Helper()
	p, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		for i := 0; i < len(script); i += 2 {
			b := make([]byte, len(script[i]))
			if _, err := io.ReadFull(far, b); err != nil || string(b) != script[i] {
				t.Errorf("%s: the proxy heard %q, want %q (%v)", url, b, script[i], err)
				return
			}
			if i+1 < len(script) {
				if _, err := io.WriteString(far, script[i+1]); err != nil {
					return // the other side has heard enough
				}
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.Dial(ctx, func(_ context.Context, at netip.AddrPort) (net.Conn, error) {
		if at != netip.MustParseAddrPort("192.0.2.1:1") {
			t.Errorf("dialled %v", at)
		}
		return near, nil
	}, host, 443)
}

const auth = "Proxy-Authorization: Basic dTpw\r\n"

// TestDial: the requests are those of the protocols, and the bytes after the answer are
// the connection's.
func TestDial(t *testing.T) {
	for _, c := range []struct {
		url, host string
		script    []string
	}{
		{"socks4://192.0.2.1:1", "198.51.100.9", []string{"\x04\x01\x01\xbb\xc6\x33\x64\x09\x00", "\x00\x5a\x00\x00\x00\x00\x00\x00"}},
		{"socks4://u@192.0.2.1:1", "::ffff:198.51.100.9", []string{"\x04\x01\x01\xbb\xc6\x33\x64\x09u\x00", "\x00\x5aabcdef"}},
		{"socks4a://192.0.2.1:1", "name", []string{"\x04\x01\x01\xbb\x00\x00\x00\x01\x00name\x00", "\x00\x5aabcdef"}},
		{"socks5://192.0.2.1:1", "198.51.100.9", []string{"\x05\x01\x00", "\x05\x00", "\x05\x01\x00\x01\xc6\x33\x64\x09\x01\xbb", "\x05\x00\x00\x01abcdef"}},
		{"socks5://192.0.2.1:1", "2001:db8::1", []string{"\x05\x01\x00", "\x05\x00", "\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\xbb", "\x05\x00\x00\x04" + strings.Repeat("x", 18)}},
		{"socks5://u:pw@192.0.2.1:1", "name", []string{"\x05\x02\x00\x02", "\x05\x02", "\x01\x01u\x02pw", "\x01\x00", "\x05\x01\x00\x03\x04name\x01\xbb", "\x05\x00\x00\x03\x03abcde"}},
		{"socks5://u:pw@192.0.2.1:1", "198.51.100.9", []string{"\x05\x02\x00\x02", "\x05\x00", "\x05\x01\x00\x01\xc6\x33\x64\x09\x01\xbb", "\x05\x00\x00\x01abcdef"}},
		{"http://192.0.2.1:1", "198.51.100.9", []string{"CONNECT 198.51.100.9:443 HTTP/1.1\r\nHost: 198.51.100.9:443\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n\r\n"}},
		{"http://u:p@192.0.2.1:1", "2001:db8::1", []string{"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n" + auth + "\r\n", "HTTP/1.0 200\n\n"}},
	} {
		c.script[len(c.script)-1] += "early"
		conn, err := talk(t, c.url, c.host, c.script...)
		if err != nil {
			t.Errorf("%s %s: %v", c.url, c.host, err)
			continue
		}
		if b, err := io.ReadAll(conn); err != nil || string(b) != "early" {
			t.Errorf("%s: %q %v", c.url, b, err)
		}
		conn.Close()
	}
}

// TestRefused: an error says what the proxy said, and there is no connection.
func TestRefused(t *testing.T) {
	const plain, login, connect = "socks5://192.0.2.1:1", "socks5://u:pw@192.0.2.1:1", "CONNECT 198.51.100.9:443 HTTP/1.1\r\nHost: 198.51.100.9:443\r\n"
	ask := []string{"\x05\x01\x00", "\x05\x00", "\x05\x01\x00\x01\xc6\x33\x64\x09\x01\xbb"}
	after := func(s string) []string { return append(slices.Clone(ask), s) }
	for _, c := range []struct {
		url    string
		script []string
		kind   fault.Kind
		want   string
	}{
		{plain, []string{"\x05\x01\x00", "\x05\xff"}, fault.Config, "it wants a user name and a password"},
		{plain, []string{"\x05\x01\x00", "\x05\x02"}, fault.Protocol, "not offered"},
		{plain, []string{"\x05\x01\x00", "\x04\x00"}, fault.Protocol, "not SOCKS 5"},
		{plain, []string{"\x05\x01\x00", "HTTP/1.1 400 Bad"}, fault.Protocol, "not SOCKS 5"},
		{plain, []string{"\x05\x01\x00"}, fault.Network, "no answer"},
		{login, []string{"\x05\x02\x00\x02", "\x05\xff"}, fault.Config, "takes no user name"},
		{login, []string{"\x05\x02\x00\x02", "\x05\x02", "\x01\x01u\x02pw", "\x01\x01"}, fault.Config, "refuses the user name or the password"},
		{plain, after("\x05\x01\x00\x01abcdef"), fault.Network, "it failed (reply 1)"},
		{plain, after("\x05\x02\x00\x01abcdef"), fault.Network, "its rules forbid it (reply 2)"},
		{plain, after("\x05\x05\x00\x01abcdef"), fault.Network, "the host refuses the connection (reply 5)"},
		{plain, after("\x05\x63\x00\x01abcdef"), fault.Network, "for a reason of its own (reply 99)"},
		{plain, after("\x05\x00\x00\x07abcdef"), fault.Protocol, "address of type 7"},
		{plain, after("\x06\x00\x00\x01abcdef"), fault.Protocol, "not SOCKS 5"},
		{plain, after("\x05\x00\x00\x01abc"), fault.Network, "no answer"},
		{plain, after("\x05\x00\x00\x03\xffabc"), fault.Network, "no answer"},
		{"socks4://192.0.2.1:1", []string{"\x04\x01\x01\xbb\xc6\x33\x64\x09\x00", "\x00\x5babcdef"}, fault.Network, "reply 91"},
		{"socks4://192.0.2.1:1", []string{"\x04\x01\x01\xbb\xc6\x33\x64\x09\x00", "\x00\x5dabcdef"}, fault.Config, "refuses the user name"},
		{"socks4://192.0.2.1:1", []string{"\x04\x01\x01\xbb\xc6\x33\x64\x09\x00", "\x05\x00abcdef"}, fault.Protocol, "not SOCKS 4"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1 407 Need\r\n\r\n"}, fault.Config, "it wants a user name and a password (answer 407)"},
		{"http://u:p@192.0.2.1:1", []string{connect + auth + "\r\n", "HTTP/1.1 407 Need\r\n\r\n"}, fault.Config, "it refuses the user name or the password"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1 503 198.51.100.9 is down\r\n\r\n"}, fault.Network, "it cannot connect (answer 503)"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1 100 Go on\r\n\r\n"}, fault.Network, "it cannot connect (answer 100)"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1 2000 OK\r\n\r\n"}, fault.Protocol, "not HTTP/1"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1\r\n\r\n"}, fault.Protocol, "not HTTP/1"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "SSH-2.0-x\r\n\r\n"}, fault.Protocol, "not HTTP/1"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1 200 OK\r\nX:"}, fault.Network, "no answer"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<16)}, fault.Protocol, "no end within 8192 bytes"},
		{"http://192.0.2.1:1", []string{connect + "\r\n", strings.Repeat("x", 1<<16)}, fault.Protocol, "no end within 8192 bytes"},
	} {
		conn, err := talk(t, c.url, "198.51.100.9", c.script...)
		if conn != nil || !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q (%v)", c.url, c.script, err, c.want, c.kind)
		}
		if err != nil && strings.Contains(err.Error(), "198.51") {
			t.Errorf("the error names the target: %v", err)
		}
	}
	if _, err := talk(t, "socks4://192.0.2.1:1", "2001:db8::1"); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "no IPv6") {
		t.Error(err)
	}
}

// TestSilentProxy: a proxy that says nothing, or a byte now and then, holds the caller
// until its context ends.
func TestSilentProxy(t *testing.T) {
	for _, url := range []string{"socks4://192.0.2.1:1", "socks5://192.0.2.1:1", "http://192.0.2.1:1"} {
		for _, slow := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p, err := Parse(url)
				if err != nil {
					t.Fatal(err)
				}
				near, far := net.Pipe()
				defer far.Close()
				go io.Copy(io.Discard, far)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if slow {
					go func() {
						for ctx.Err() == nil {
							select {
							case <-time.After(time.Second): // of virtual time
							case <-ctx.Done():
							}
							if _, err := far.Write([]byte("\x05")); err != nil {
								return
							}
						}
					}()
				}
				began := time.Now()
				_, err = p.Dial(ctx, func(context.Context, netip.AddrPort) (net.Conn, error) { return near, nil }, "198.51.100.9", 443)
				if err == nil || time.Since(began) > time.Minute || !slow && !fault.Is(err, fault.Timeout) {
					t.Errorf("%s: %v after %v", url, err, time.Since(began))
				}
			})
		}
	}
}

// TestTooLate: when the context ends while the proxy answers, there is no connection: it
// could have the deadline that ends the wait.
func TestTooLate(t *testing.T) {
	for range 20 {
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := readHead(bufio.NewReader(far)); err == nil {
				io.WriteString(far, "HTTP/1.1 200 OK\r\n\r")
				cancel()
				io.WriteString(far, "\n")
			}
			far.Close()
		}()
		p, err := Parse("http://192.0.2.1:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Dial(ctx, func(context.Context, netip.AddrPort) (net.Conn, error) { return near, nil }, "198.51.100.9", 443); !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
		cancel()
	}
}

// FuzzAnswer: whatever a proxy answers, there is an error or a connection, and no more
// is read than the answer may have.
func FuzzAnswer(f *testing.F) {
	f.Add(0, []byte("\x00\x5aabcdefearly"))
	f.Add(1, []byte("\x05\x00\x05\x00\x00\x03\x03abcdeearly"))
	f.Add(2, []byte("HTTP/1.1 200 OK\r\n\r\nearly"))
	f.Fuzz(func(t *testing.T, which int, answer []byte) {
		urls := []string{"socks4://192.0.2.1:1", "socks5://u:p@192.0.2.1:1", "http://192.0.2.1:1"}
		p, err := Parse(urls[uint(which)%3])
		if err != nil {
			t.Fatal(err)
		}
		c := &said{rest: answer}
		err = p.kind.ask(c, p, "198.51.100.9", 443)
		if read := len(answer) - len(c.rest); read > maxHead {
			t.Fatalf("%d bytes were read (%v)", read, err)
		}
	})
}

// said is a peer that has said all that it says.
type said struct {
	net.Conn
	rest []byte
}

func (s *said) Write(b []byte) (int, error) { return len(b), nil }
func (s *said) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestParseURLRoundTrip(t *testing.T) {
	for _, text := range []string{"socks5://a%25b:c%2Fd@192.0.2.1:1", "http://a%20b:%C3%A4@[::1]:1"} {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(p.URL().String())
		if err != nil || *again != *p {
			t.Errorf("%s: %v %v", text, p.URL(), err)
		}
	}
}
