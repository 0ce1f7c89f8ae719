package fte

import (
	"bytes"
	"context"
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

func serverKeyFor(t testing.TB) *ServerKey {
	t.Helper()
	k, err := NewServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

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

func TestKeyLines(t *testing.T) {
	k := serverKeyFor(t)
	old := serverKeyFor(t)
	keys, err := ParseServerKeys(strings.NewReader("# keys\n" + k.Line() + "\n\n" + old.Line() + "\n"))
	if err != nil || len(keys) != 2 || keys[1].Line() != old.Line() {
		t.Fatal("keys aren't read back:", err)
	}
	c, err := ParseCert(k.Cert().Line())
	if err != nil || c.Line() != k.Cert().Line() {
		t.Fatal("a certificate isn't read back:", err)
	}
	for _, bad := range []string{"", "chive-fte-cert-1:", "chive-fte-cert-1:AAAA", k.Line()} {
		if _, err := ParseCert(bad); !fault.Is(err, fault.Config) {
			t.Errorf("certificate %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "#\n", "x\n", keyLine + "AAAA\n", strings.Repeat(k.Line()+"\n", maxKeys+1)} {
		if _, err := ParseServerKeys(strings.NewReader(bad)); !fault.Is(err, fault.Config) {
			t.Errorf("keys %q: %v", bad, err)
		}
	}
}

// TestRotation lets a client with the old certificate in while the server
// still has its key, and not after.
func TestRotation(t *testing.T) {
	old, now := serverKeyFor(t), serverKeyFor(t)
	req, resp, err := definitions(t, "", false).Pair("hex")
	if err != nil {
		t.Fatal(err)
	}
	client, err := Protocol{Request: req, Response: resp, Cert: old.Cert()}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	both, err := Protocol{Request: req, Response: resp, Keys: []*ServerKey{now, old}}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, client, both, []byte("a"), []byte("b"))
	after, err := Protocol{Request: req, Response: resp, Keys: []*ServerKey{now}}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	a, b := tcpPair(t)
	go client.Wrap(a).Handshake()
	if err := after.Wrap(b).Handshake(); !fault.Is(err, fault.Refused) {
		t.Error("a key that was dropped is accepted:", err)
	}
}

// recorded is a peer that sends a recording.
func recorded(b []byte) net.Conn { return script{r: bytes.NewReader(b)} }

// TestReplay plays a whole recorded stream to its server again, and to the
// server after a restart: neither delivers a byte.
func TestReplay(t *testing.T) {
	client, server := chivePair(t, "base64", Protocol{})
	up, _ := roundTrip(t, client, server, noise(5000, 1), noise(10, 2))
	if err := server.Wrap(recorded(up)).Handshake(); !fault.Is(err, fault.Refused) {
		t.Error("a replayed hello is accepted:", err)
	}
	s := server.(*chiveServer)
	// A replay is refused before the server draws a key for its answer.
	drawn := new(countingRand)
	proto := *s.chiveProto
	proto.Rand = drawn
	if err := (&chiveServer{chiveProto: &proto, seen: s.seen}).Wrap(recorded(up)).Handshake(); !fault.Is(err, fault.Refused) || drawn.n > 0 {
		t.Errorf("%d random bytes are drawn for a replay, %v", drawn.n, err)
	}
	restarted := &chiveServer{chiveProto: s.chiveProto, seen: newReplayCache(maxSeen, time.Now())}
	got, err := io.ReadAll(restarted.Wrap(recorded(up)))
	if err == nil || len(got) > 0 {
		t.Errorf("after a restart a replay delivers %d bytes, %v", len(got), err)
	}
	late := &chiveServer{chiveProto: s.chiveProto, seen: newReplayCache(maxSeen, time.Now().Add(restartSlack+time.Minute))}
	if err := late.Wrap(recorded(up)).Handshake(); !fault.Is(err, fault.Refused) {
		t.Error("a hello from well before the start is accepted:", err)
	}
}

// countingRand counts what is drawn.
type countingRand struct{ n int }

func (r *countingRand) Read(p []byte) (int, error) {
	r.n += len(p)
	return rand.Read(p)
}

func TestReplayCache(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newReplayCache(3, now)
	id := func(b byte) helloID { return helloID{b} }
	if !r.fresh(id(1), now, now) || r.fresh(id(1), now, now) {
		t.Error("an id isn't accepted exactly once")
	}
	if r.fresh(id(2), now.Add(-helloWindow-1), now) || r.fresh(id(2), now.Add(helloWindow+1), now) {
		t.Error("a time outside the window is accepted")
	}
	// As long as a hello's time is accepted, the hello is remembered.
	stamp := now.Add(helloWindow)
	if !r.fresh(id(3), stamp, now) {
		t.Fatal("a fast clock is refused")
	}
	for at := now; !at.After(now.Add(2 * helloWindow)); at = at.Add(helloWindow / 4) {
		if r.fresh(id(3), stamp, at) {
			t.Errorf("forgotten after %v", at.Sub(now))
		}
	}
	now = now.Add(20 * helloWindow)
	for i := range byte(3) {
		if !r.fresh(id(i), now, now) {
			t.Errorf("id %d is refused", i)
		}
	}
	if r.fresh(id(9), now, now) {
		t.Error("the bound isn't kept")
	}
}

// TestStreamHostile changes, cuts, swaps and reflects a recorded stream of records.
func TestStreamHostile(t *testing.T) {
	for mode := range modes {
		req := mustFormat(t, "hex-request")
		p := &chiveProto{Protocol: Protocol{Rand: rand.Reader, Mode: mode}, request: req, response: req}
		sec := secrets{toServer: [32]byte{1}, toClient: [32]byte{2}}
		use := func(c *Conn, send, receive [32]byte) {
			w, err := p.writer(req)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.reader(req)
			if err != nil {
				t.Fatal(err)
			}
			c.hsDone = true
			p.use(c, sec, w, r, send, receive)
		}
		var out capture
		c := newConn(&out, nil)
		use(c, sec.toServer, sec.toClient)
		var ends []int
		a, b := noise(500, 1), noise(700, 2)
		for _, d := range [][]byte{a, b} {
			if _, err := c.Write(d); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, out.b.Len())
		}
		f := getFrame(nil, wireFrame)
		fin, err := c.seal.finish(f.B)
		if err != nil {
			t.Fatal(err)
		}
		wire := append(bytes.Clone(out.b.Bytes()), fin...)
		read := func(b []byte, key [32]byte) ([]byte, error) {
			r := newConn(recorded(b), nil)
			use(r, sec.toClient, key)
			return io.ReadAll(r)
		}
		plain := append(bytes.Clone(a), b...)
		if got, err := read(wire, sec.toServer); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%v: the stream itself: %v", mode, err)
		}
		check := func(what string, b []byte, key [32]byte, most int) {
			got, err := read(b, key)
			if err == nil || len(got) > most || !bytes.HasPrefix(plain, got) {
				t.Errorf("%v: %s: %d bytes delivered, %v", mode, what, len(got), err)
			}
		}
		for i := 0; i < ends[1]; i += 37 {
			x := bytes.Clone(wire)
			x[i] ^= 1
			got, err := read(x, sec.toServer)
			if !bytes.HasPrefix(plain, got) || err == nil && len(got) != len(plain) {
				t.Errorf("%v: byte %d changed: %d bytes delivered, %v", mode, i, len(got), err)
			}
		}
		for i := 0; i < len(wire); i += 41 {
			most := 0
			if i >= ends[0] {
				most = len(a)
			}
			if i >= ends[1] {
				most = len(plain)
			}
			check("cut", wire[:i], sec.toServer, most)
		}
		second := append(bytes.Clone(wire[ends[0]:ends[1]]), wire[:ends[0]]...)
		check("reordered", second, sec.toServer, 0)
		check("repeated", append(bytes.Clone(wire[:ends[0]]), wire[:ends[0]]...), sec.toServer, len(a))
		check("reflected", wire, sec.toClient, 0)
	}
}

func TestRecordsTurnKeys(t *testing.T) {
	a, b := newRecordKeys([32]byte{7}, 0), &recordOpener{keys: newRecordKeys([32]byte{7}, 0)}
	a.n, b.keys.n = 2*recordsPerKey-2, 2*recordsPerKey-2
	before := a.key
	buf := make([]byte, 200)
	for i := range 3 {
		copy(buf[recordHead:], "data")
		data, _, _, err := b.open(bytes.Clone(a.seal(buf, recordHead, 4, 9, kindData)))
		if err != nil || string(data) != "data" {
			t.Fatalf("record %d: %q, %v", i, data, err)
		}
	}
	if a.key == before || a.n != 4 {
		t.Error("the key wasn't replaced")
	}
}

func TestRecordAllocs(t *testing.T) {
	f := mustFormat(t, "base64-request")
	for name := range modes {
		p := &chiveProto{Protocol: Protocol{Rand: zeros{}, Mode: name}, request: f, response: f}
		w, err := p.writer(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.reader(f)
		if err != nil {
			t.Fatal(err)
		}
		var out capture
		s := p.use(newConn(&out, nil), secrets{}, w, r, [32]byte{1}, [32]byte{2})
		head, tail, _ := s.room()
		buf := make([]byte, head+4096+tail)
		if n := testing.AllocsPerRun(1000, func() { // the race detector has pools drop a quarter
			if _, err := s.seal(buf, head, 4096); err != nil {
				t.Fatal(err)
			}
			s.release()
		}); n > 0 {
			t.Errorf("%v: %v allocations a record", name, n)
		}
	}
}

// TestHelloUniform counts bits of hellos: a language of all bytes shows them.
func TestHelloUniform(t *testing.T) {
	cert := serverKeyFor(t).Cert()
	const n = 600
	ones := make([]int, 8*clientHelloHead)
	for range n {
		_, hello, err := newClientKex(rand.Reader, cert, nil, flagHybrid, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for i := range ones {
			ones[i] += int(hello[i/8]>>(i%8)) & 1
		}
	}
	for i, c := range ones {
		if c < n/2-100 || c > n/2+100 { // 8 standard deviations
			t.Errorf("bit %d is set in %d of %d hellos", i, c, n)
		}
	}
}

func FuzzRecordOpen(f *testing.F) {
	k := newRecordKeys([32]byte{1}, 0)
	buf := make([]byte, 100)
	f.Add(bytes.Clone(k.seal(buf, recordHead, 10, 3, kindData)))
	f.Add(make([]byte, recordHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := &recordOpener{keys: newRecordKeys([32]byte{1}, 0)}
		if _, used, need, err := o.open(b); err == nil && (used > len(b) || used == 0 && (need <= len(b) || need > maxRecord)) {
			t.Fatalf("used %d, need %d of %d", used, need, len(b))
		}
	})
}

func FuzzServerHello(f *testing.F) {
	req, resp, err := definitions(f, "", false).Pair("dummy")
	if err != nil {
		f.Fatal(err)
	}
	key := serverKeyFor(f)
	srv, err := Protocol{Request: req, Response: resp, Keys: []*ServerKey{key}}.Acceptor()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(make([]byte, 256))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := srv.Wrap(recorded(b)).Handshake(); err == nil {
			t.Fatal("a stranger was let in")
		}
	})
}

// FuzzClientHandshake is a server that doesn't know the key.
func FuzzClientHandshake(f *testing.F) {
	req, resp, err := definitions(f, "", false).Pair("dummy")
	if err != nil {
		f.Fatal(err)
	}
	cert := serverKeyFor(f).Cert()
	var clients []Transport
	for m := range modes {
		c, err := Protocol{Request: req, Response: resp, Cert: cert, Mode: m, Hybrid: m == Bulk}.Dialer()
		if err != nil {
			f.Fatal(err)
		}
		clients = append(clients, c)
	}
	f.Add(uint8(0), make([]byte, 300))
	f.Add(uint8(2), []byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Fuzz(func(t *testing.T, m uint8, b []byte) {
		if err := clients[int(m)%len(clients)].Wrap(recorded(b)).Handshake(); err == nil {
			t.Fatal("a stranger is taken for the server")
		}
	})
}

// FuzzStreamOpen gives what isn't authentic to an open connection of each mode.
func FuzzStreamOpen(f *testing.F) {
	formats := []*Format{mustFormat(f, "words-request"), mustFormat(f, "manual-http-response"), mustFormat(f, "hex-request")}
	f.Add(uint8(0), []byte("some words that are in the language and no record "))
	f.Add(uint8(5), bytes.Repeat([]byte("0f"), 300))
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		format := formats[int(which)%len(formats)]
		p := &chiveProto{Protocol: Protocol{Rand: zeros{}, Mode: Mode(which/8) % modes}, request: format, response: format}
		w, err := p.writer(format)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.reader(format)
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(recorded(b), nil)
		c.hsDone = true
		p.use(c, secrets{}, w, r, [32]byte{1}, [32]byte{2})
		if got, err := io.ReadAll(c); err == nil || len(got) > 0 {
			t.Fatalf("%d bytes are delivered, %v", len(got), err)
		}
	})
}

func FuzzParseCert(f *testing.F) {
	f.Add(serverKeyFor(f).Cert().Line())
	f.Add("chive-fte-cert-1:")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCert(s); err == nil {
			if again, err := ParseCert(c.Line()); err != nil || again.Line() != c.Line() {
				t.Fatal("a certificate isn't read back")
			}
		}
	})
}

func FuzzParseServerKeys(f *testing.F) {
	k := serverKeyFor(f).Line()
	f.Add("# a comment\n\n" + k + "\r\n" + k)
	f.Add("chive-fte-key-1:")
	f.Fuzz(func(t *testing.T, s string) {
		keys, err := ParseServerKeys(strings.NewReader(s))
		if err != nil {
			if !fault.Is(err, fault.Config) {
				t.Fatal(err)
			}
			return
		}
		again := ""
		for _, k := range keys {
			again += k.Line() + "\n"
		}
		if back, err := ParseServerKeys(strings.NewReader(again)); err != nil || len(back) != len(keys) || len(keys) > maxKeys {
			t.Fatalf("%d keys are read back as %d, %v", len(keys), len(back), err)
		}
	})
}

func TestHandshakeContext(t *testing.T) {
	client, _ := chivePair(t, "hex", Protocol{})
	a, _ := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Wrap(a).HandshakeContext(ctx); !fault.Is(err, fault.Timeout) || !errors.Is(err, context.Canceled) {
		t.Error(err)
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
