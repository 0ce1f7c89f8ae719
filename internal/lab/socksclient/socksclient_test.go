package socksclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// script plays a proxy: it checks what it reads and sends what it is told to.
// The bytes are RFC 1928's and RFC 1929's, written out.
func script(t *testing.T, steps ...string) Dialer {
	t.Helper()
	return scriptThen(t, func() {}, steps...)
}

// scriptThen is script, and calls done after the last step.
func scriptThen(t *testing.T, done func(), steps ...string) Dialer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-ended })
	go func() {
		defer close(ended)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for i := 0; i < len(steps); i += 2 {
			got := make([]byte, len(steps[i]))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != steps[i] {
				t.Errorf("the client sent %x, %v; want %x", got, err, steps[i])
				return
			}
			io.WriteString(c, steps[i+1])
		}
		done()
		io.Copy(io.Discard, c)
	}()
	return Dialer{Proxy: ln.Addr().String()}
}

func TestConnect(t *testing.T) {
	d := script(t, "\x05\x01\x00", "\x05\x00",
		"\x05\x01\x00\x03\x04a.bc\x01\xbb", "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50hello")
	c, err := d.DialContext(t.Context(), "tcp", "a.bc:443")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestConnectWithPassword(t *testing.T) {
	d := script(t, "\x05\x01\x02", "\x05\x02", "\x01\x01u\x02pw", "\x01\x00",
		"\x05\x01\x00\x04"+strings.Repeat("\x00", 15)+"\x01\x00\x50", "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00")
	d.User, d.Pass = "u", "pw"
	_, err := d.DialContext(t.Context(), "tcp", "[::1]:80")
	var r Reply
	if !errors.As(err, &r) || r != Refused {
		t.Errorf("error: %v", err)
	}
}

func TestResolve(t *testing.T) {
	d := script(t, "\x05\x01\x00", "\x05\x00", "\x05\xf0\x00\x03\x01a\x00\x00", "\x05\x00\x00\x01\x7f\x00\x00\x02\x00\x00")
	if a, err := d.Resolve(t.Context(), "a"); err != nil || a != netip.MustParseAddr("127.0.0.2") {
		t.Errorf("%v, %v", a, err)
	}
	d = script(t, "\x05\x01\x00", "\x05\x00", "\x05\xf1\x00\x01\x7f\x00\x00\x01\x00\x00", "\x05\x00\x00\x03\x01b\x00\x00")
	if n, err := d.ResolvePTR(t.Context(), netip.MustParseAddr("127.0.0.1")); err != nil || n != "b" {
		t.Errorf("%q, %v", n, err)
	}
}

func TestGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	tired := errors.New("waited long enough")
	// It is asked, and says nothing.
	d := scriptThen(t, func() { cancel(tired) }, "\x05\x01\x00", "\x05\x00", "\x05\x01\x00\x03\x01a\x00\x01", "")
	if _, err := d.DialContext(ctx, "tcp", "a:1"); !errors.Is(err, tired) || !fault.Is(err, fault.Timeout) {
		t.Errorf("error: %v", err)
	}
}

func TestRefusesTargets(t *testing.T) {
	for _, target := range []string{"a", "a:70000", strings.Repeat("a", 256) + ":1"} {
		if b, err := encode(cmdConnect, target); err == nil {
			t.Errorf("%q became %x", target, b)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x00\x00\x03\x01b\x00\x00"))
	f.Add([]byte("\x05\x05\x00\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		addr, host, err := readReply(r)
		if err == nil && addr.IsValid() == (host != "") && in[4] != 0 {
			t.Errorf("%x: %v and %q", in, addr, host)
		}
	})
}
