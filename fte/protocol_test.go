package fte

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// chivePair returns the two transports of one configuration.
func chivePair(t testing.TB, format string, p Protocol) (client, server Transport) {
	t.Helper()
	req, resp, err := definitions(t, "", false).Pair(format)
	if err != nil {
		t.Fatal(err)
	}
	key := serverKeyFor(t)
	p.Request, p.Response, p.Cert, p.Keys = req, resp, key.Cert(), []*ServerKey{key}
	if client, err = p.Dialer(); err != nil {
		t.Fatal(err)
	}
	if server, err = p.Acceptor(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// tap keeps what is written through it.
type tap struct {
	net.Conn
	b *bytes.Buffer
}

func (c tap) Write(p []byte) (int, error) {
	c.b.Write(p)
	return c.Conn.Write(p)
}
func (c tap) CloseWrite() error { return c.Conn.(halfCloser).CloseWrite() }

// roundTrip sends both ways over one connection, half-closing each way, and
// returns the wire bytes of both directions.
func roundTrip(t testing.TB, client, server Transport, up, down []byte) (toServer, toClient []byte) {
	t.Helper()
	a, b := tcpPair(t)
	a.SetDeadline(time.Now().Add(60 * time.Second))
	b.SetDeadline(time.Now().Add(60 * time.Second))
	var ab, bb bytes.Buffer
	c, s := client.Wrap(tap{a, &ab}), server.Wrap(tap{b, &bb})
	errs := make(chan error, 2)
	go func() {
		_, err := c.Write(up[:min(1, len(up))])
		if err == nil {
			_, err = c.ReadFrom(bytes.NewReader(up[min(1, len(up)):]))
		}
		errs <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(s)
	if err := errors.Join(err, <-errs); err != nil || !bytes.Equal(got, up) {
		t.Fatalf("up: %d of %d bytes, %v", len(got), len(up), err)
	}
	go func() {
		_, err := s.Write(down)
		errs <- errors.Join(err, s.CloseWrite())
	}()
	got, err = io.ReadAll(c)
	if err := errors.Join(err, <-errs); err != nil || !bytes.Equal(got, down) {
		t.Fatalf("down: %d of %d bytes, %v", len(got), len(down), err)
	}
	return ab.Bytes(), bb.Bytes()
}

// goPattern is a format's pattern as package regexp takes it: classes read
// escapes as Go does, so the backslashes that fteproxy adds to them are added.
func goPattern(f *Format) *regexp.Regexp {
	p := strings.NewReplacer(`\C`, `[\x00-\xff]`, `\ `, ` `, `[a-zA-Z0-9\.\/]`, `[a-zA-Z0-9\.\/\\]`, `\/`, `/`).Replace(f.Pattern)
	return regexp.MustCompile(`(?s)` + p)
}

// latin1 maps every byte to one rune, since package regexp reads UTF-8.
func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

// TestFormats sends through every format and checks every byte of both
// directions with package regexp: in strict mode they are one word, in cells
// words of the format's length.
func TestFormats(t *testing.T) {
	defs := definitions(t, "", false)
	for _, mode := range []Mode{Strict, Cells} {
		for _, name := range defs.Names() {
			client, server := chivePair(t, name, Protocol{Mode: mode})
			up, down := roundTrip(t, client, server, noise(20_000, 1), noise(30_000, 2))
			req, resp, err := defs.Pair(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []struct {
				f *Format
				b []byte
			}{{req, up}, {resp, down}} {
				re := goPattern(d.f)
				size := d.f.Slice
				if mode == Strict {
					size = len(d.b)
				}
				if len(d.b)%size != 0 {
					t.Errorf("%v: %s: %d bytes aren't words of %d", mode, d.f.Name, len(d.b), size)
				}
				for i := 0; i+size <= len(d.b); i += size {
					if w := latin1(d.b[i : i+size]); !re.MatchString(w) {
						t.Errorf("%v: %s: %.200q doesn't match", mode, d.f.Name, w)
						break
					}
				}
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for name, p := range map[string]Protocol{
		"cells":        {Mode: Cells},
		"bulk":         {Mode: Bulk},
		"hybrid":       {Hybrid: true},
		"chacha":       {ChaCha: true},
		"shaped":       {Shape: Shape{Multiple: 512, Random: 300, MaxRecord: 4000, Delay: time.Millisecond}},
		"bulk, shaped": {Mode: Bulk, Hybrid: true, ChaCha: true, Shape: Shape{Random: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"manual-http", "words", "ip-address"} {
				client, server := chivePair(t, format, p)
				roundTrip(t, client, server, noise(200_000, 1), noise(150_000, 2))
				roundTrip(t, client, server, nil, []byte("x"))
			}
		})
	}
}

// TestShapeRefused: what no connection could keep to.
func TestShapeRefused(t *testing.T) {
	for _, s := range []Shape{
		{Multiple: -1}, {Multiple: maxRecordPad}, {Random: -1}, {Random: maxRecordPad},
		{MaxRecord: -1}, {MaxRecord: maxRecordData + 1}, {Delay: -1}, {Delay: maxDelay + 1},
	} {
		key, err := NewServerKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		f := mustFormat(t, "hex-request")
		if _, err := (Protocol{Request: f, Response: f, Keys: []*ServerKey{key}, Shape: s}).Acceptor(); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
