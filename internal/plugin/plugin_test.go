package plugin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ptspec"
)

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

// talk runs a SOCKS client's bytes against readSocks.
func talk(t *testing.T, b []byte) (*socksRequest, []byte, error) {
	t.Helper()
	var out bytes.Buffer
	r, err := readSocks(struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(b), &out})
	return r, out.Bytes(), err
}

func TestSocks(t *testing.T) {
	auth := "\x05\x01\x02\x01\x03a=1\x04;b=2"
	for in, want := range map[string]string{
		"\x05\x01\x00" + "\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50":                                         "1.2.3.4:80",
		auth + "\x05\x01\x00\x03\x03foo\x01\x00":                                                            "foo:256",
		"\x05\x02\x00\x02\x01\x03c=d\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x00\x16": "[::1]:22",
	} {
		r, _, err := talk(t, []byte(in))
		if err != nil || r.target != want {
			t.Errorf("%q: %+v, %v", in, r, err)
		}
	}
	r, out, err := talk(t, []byte(auth+"\x05\x01\x00\x03\x03foo\x01\x00"))
	if err != nil || !maps.Equal(r.args, ptspec.Args{"a": "1", "b": "2"}) || string(out) != "\x05\x02\x01\x00" {
		t.Errorf("%+v %q %v", r, out, err)
	}
	if _, out, err := talk(t, []byte("\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50")); err == nil || out[3] != socksCommand {
		t.Errorf("BIND: %q, %v", out, err)
	}
	for _, bad := range []string{"", "\x04\x01", "\x05\x01\x01", "\x05\x01\x02\x01\x01x\x01\x00", "\x05\x01\x00\x05\x01\x00\x09"} {
		if _, _, err := talk(t, []byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzSocks(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50"))
	f.Add([]byte("\x05\x01\x02\x01\x03a=1\x04;b=2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, _, err := talk(t, b); err == nil && r.target == "" {
			t.Fatal("a request without target")
		}
	})
}

// orPort is an ExtORPort's side of ext-orport-spec.txt; it reports what it
// was told before DONE.
func orPort(c net.Conn, cookie []byte, answer uint16) (map[uint16]string, error) {
	c.Write([]byte{1, 0})
	b := make([]byte, 33)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	cn, sn := b[1:], bytes.Repeat([]byte{9}, 32)
	c.Write(append(ptspec.ExtHash(cookie, "ExtORPort authentication server-to-client hash", cn, sn), sn...))
	h := make([]byte, 32)
	if _, err := io.ReadFull(c, h); err != nil {
		return nil, err
	}
	if !bytes.Equal(h, ptspec.ExtHash(cookie, "ExtORPort authentication client-to-server hash", cn, sn)) {
		return nil, errors.New("the client doesn't know the cookie")
	}
	c.Write([]byte{1})
	told := map[uint16]string{}
	for {
		h := make([]byte, 4)
		if _, err := io.ReadFull(c, h); err != nil {
			return nil, err
		}
		body := make([]byte, binary.BigEndian.Uint16(h[2:]))
		if _, err := io.ReadFull(c, body); err != nil {
			return nil, err
		}
		if cmd := binary.BigEndian.Uint16(h); cmd != ptspec.ExtDone {
			told[cmd] = string(body)
			continue
		}
		_, err := c.Write(binary.BigEndian.AppendUint16(nil, answer))
		c.Write([]byte{0, 0})
		return told, err
	}
}

func TestExtORPort(t *testing.T) {
	cookie := bytes.Repeat([]byte{7}, ptspec.CookieLen)
	user := netip.MustParseAddrPort("192.0.2.1:5")
	for _, v := range []struct {
		theirs []byte
		answer uint16
		ok     bool
	}{{cookie, ptspec.ExtOkay, true}, {cookie, ptspec.ExtDeny, false}, {make([]byte, ptspec.CookieLen), ptspec.ExtOkay, false}} {
		a, b := net.Pipe()
		a.SetDeadline(time.Now().Add(60 * time.Second))
		b.SetDeadline(time.Now().Add(60 * time.Second))
		got := make(chan map[uint16]string, 1)
		go func() {
			told, _ := orPort(b, v.theirs, v.answer)
			b.Close()
			got <- told
		}()
		err := extHello(a, rand.Reader, cookie, user, "chive")
		a.Close()
		told := <-got
		if (err == nil) != v.ok {
			t.Errorf("answer %x: %v", v.answer, err)
		}
		if v.ok && (told[ptspec.ExtUserAddr] != user.String() || told[ptspec.ExtTransport] != "chive") {
			t.Errorf("told %v", told)
		}
	}
	path := filepath.Join(t.TempDir(), "cookie")
	for content, ok := range map[string]bool{ptspec.CookieHeader + string(cookie): true, ptspec.CookieHeader: false, string(cookie): false, ptspec.CookieHeader + string(cookie) + "x": false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readCookie(path); (err == nil) != ok {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(&logHandler{l: &lines{w: &b}})
	log.With("a", 1).Warn("x \"y\"\nz", "b", `\`)
	if got, want := b.String(), `LOG SEVERITY=warning MESSAGE="x \"y\"\nz a=1 b=\\"`+"\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// child is a plugin inside this process.
type child struct {
	stdin *io.PipeWriter
	out   *bufio.Reader
	done  chan error
}

func start(t *testing.T, m map[string]string) *child {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &child{stdin: inW, out: bufio.NewReader(outR), done: make(chan error, 1)}
	m["TOR_PT_MANAGED_TRANSPORT_VER"], m["TOR_PT_EXIT_ON_STDIN_CLOSE"] = "1", "1"
	if m["TOR_PT_STATE_LOCATION"] == "" {
		m["TOR_PT_STATE_LOCATION"] = t.TempDir()
	}
	go func() {
		err := Run(context.Background(), Config{Getenv: env(m), Stdin: inR, Stdout: outW, Version: "test"})
		outW.Close()
		c.done <- err
	}()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		if err := <-c.done; err != nil && !t.Failed() {
			t.Log("the plugin ended:", err)
		}
	})
	return c
}

// until returns the lines up to one that begins with last.
func (c *child) until(t *testing.T, last string) []string {
	t.Helper()
	var all []string
	for {
		l, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, all)
		}
		all = append(all, strings.TrimSpace(l))
		if strings.HasPrefix(l, last) {
			return all
		}
	}
}

func field(t *testing.T, lines []string, prefix string) string {
	t.Helper()
	for _, l := range lines {
		if r, ok := strings.CutPrefix(l, prefix); ok {
			return r
		}
	}
	t.Fatalf("no line %q in %q", prefix, lines)
	return ""
}

// TestPlugins joins a client plugin and a server plugin, over an ExtORPort and
// an ORPort, in both transports.
func TestPlugins(t *testing.T) {
	or, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer or.Close()
	cookie := bytes.Repeat([]byte{3}, ptspec.CookieLen)
	path := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(path, append([]byte(ptspec.CookieHeader), cookie...), 0o600); err != nil {
		t.Fatal(err)
	}
	told := make(chan map[uint16]string, 4)
	go func() {
		for {
			c, err := or.Accept()
			if err != nil {
				return
			}
			m, err := orPort(c, cookie, ptspec.ExtOkay)
			if err != nil {
				m = nil
			}
			told <- m
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	srv := start(t, map[string]string{
		"TOR_PT_SERVER_TRANSPORTS": "chive,fte,nosuch", "TOR_PT_SERVER_BINDADDR": "chive-127.0.0.1:0,fte-127.0.0.1:0",
		"TOR_PT_EXTENDED_SERVER_PORT": or.Addr().String(), "TOR_PT_AUTH_COOKIE_FILE": path,
		"TOR_PT_SERVER_TRANSPORT_OPTIONS": "chive:format=base64;chive:pq=1;fte:format=words",
	})
	said := srv.until(t, "SMETHODS DONE")
	field(t, said, "SMETHOD-ERROR nosuch ")
	cli := start(t, map[string]string{"TOR_PT_CLIENT_TRANSPORTS": "chive,fte"})
	ready := cli.until(t, "CMETHODS DONE")
	if ready[0] != "VERSION 1" || said[0] != "VERSION 1" {
		t.Errorf("first lines %q, %q", ready[0], said[0])
	}
	go io.Copy(io.Discard, srv.out)
	go io.Copy(io.Discard, cli.out)
	for _, name := range []string{"chive", "fte"} {
		addr, args, _ := strings.Cut(field(t, said, "SMETHOD "+name+" "), " ARGS:")
		c, err := net.Dial("tcp", field(t, ready, "CMETHOD "+name+" socks5 "))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(60 * time.Second))
		ap := netip.MustParseAddrPort(addr)
		line := strings.ReplaceAll(args, ",", ";")
		req := append([]byte{5, 1, 2, 1, byte(len(line))}, line...)
		req = append(req, 1, 0, 5, 1, 0, 1)
		a4 := ap.Addr().As4()
		req = append(req, a4[:]...)
		req = binary.BigEndian.AppendUint16(req, ap.Port())
		if _, err := c.Write(req); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 2+2+10)
		if _, err := io.ReadFull(c, answer); err != nil || answer[5] != socksOK {
			t.Fatalf("%s: %x, %v", name, answer, err)
		}
		msg := bytes.Repeat([]byte("cell"), 5000)
		go c.Write(msg)
		got := make([]byte, len(msg))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, msg) {
			t.Fatalf("%s: what came back isn't what was sent: %v", name, err)
		}
		m := <-told
		if m[ptspec.ExtTransport] != name || !strings.HasPrefix(m[ptspec.ExtUserAddr], "127.0.0.1:") {
			t.Errorf("%s: the ExtORPort was told %v", name, m)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, m := range map[string]map[string]string{
		"VERSION-ERROR no-version": {"TOR_PT_MANAGED_TRANSPORT_VER": "9"},
		"ENV-ERROR":                {"TOR_PT_MANAGED_TRANSPORT_VER": "1"},
		"PROXY-ERROR":              {"TOR_PT_MANAGED_TRANSPORT_VER": "1", "TOR_PT_STATE_LOCATION": t.TempDir(), "TOR_PT_CLIENT_TRANSPORTS": "chive", "TOR_PT_PROXY": "https://alice:opensesame@127.0.0.1:1"},
	} {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a plugin that refuses nothing runs on
		defer cancel()
		if err := Run(ctx, Config{Getenv: env(m), Stdin: strings.NewReader(""), Stdout: &out}); err == nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q, %v", want, out.String(), err)
		}
		if strings.Contains(out.String(), "opensesame") {
			t.Errorf("the parent's log gets the password: %q", out.String())
		}
	}
}

// full is a listener of a process that has no file descriptor left, once.
type full struct {
	net.Listener
	failed bool
}

func (l *full) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestServeGoesOn: a transport that cannot take a connection now takes the next.
func TestServeGoesOn(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{open: map[io.Closer]struct{}{}, log: slog.New(slog.DiscardHandler)}
	taken := make(chan struct{})
	p.serve(&full{Listener: raw}, func(net.Conn) { close(taken) })
	c, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case <-taken:
	case <-time.After(time.Minute):
		t.Error("the transport has stopped listening")
	}
	p.close()
}
