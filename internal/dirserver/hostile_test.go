package dirserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
)

// ServeConn answers one request of a peer, as Serve and Begin do.
func (s *Server) ServeConn(ctx context.Context, c net.Conn, peer Peer) {
	v := s.room.enter(peer, s.rank(peer.Addr))
	if v == nil {
		s.turnAway(ctx, c, peer)
		return
	}
	s.serve(ctx, c, v)
}

// connect gives the server a connection; done is closed when it is done with it.
func connect(t testing.TB, s *Server, peer Peer) (c net.Conn, done chan struct{}) {
	t.Helper()
	a, b := net.Pipe()
	done = make(chan struct{})
	go func() { defer close(done); s.ServeConn(context.WithoutCancel(t.Context()), b, peer) }()
	t.Cleanup(func() { a.Close(); <-done })
	return a, done
}

func from(addr string) Peer { return Peer{Addr: netip.MustParseAddr(addr)} }

// send writes all of a text.
func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// status makes a request and returns the answer's status.
func status(t testing.TB, s *Server, peer Peer, request string) int {
	t.Helper()
	c, done := connect(t, s, peer)
	go io.WriteString(c, request) // it may be answered before it is read
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.40q: %v", request, err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	c.Close()
	<-done
	return res.StatusCode
}

// manyDescriptors are n documents of a size each, which look like text.
func manyDescriptors(t testing.TB, n, size int) *Memory {
	t.Helper()
	m := new(Memory)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		text := make([]byte, 0, size)
		for len(text) < size {
			text = fmt.Appendf(text, "line %x\n", r.Uint64())
		}
		d := &netdoc.RouterDesc{RSA: ident.RSAID{byte(i), byte(i >> 8)}, Digest: [20]byte{byte(i), byte(i >> 8)}, Text: text[:size]}
		if err := m.AddDescriptor(d, nil); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// liveHeap returns the bytes of objects in use, and of stacks.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() + s[1].Value.Uint64())
}

// TestUnreadAnswers: who asks for everything and reads nothing costs some
// kilobytes, in whatever encoding, and not a copy of it.
func TestUnreadAnswers(t *testing.T) {
	const requests, most = 64, 64 << 10
	mem := account.New(1 << 40)
	m := manyDescriptors(t, 300, 10<<10)
	c, err := NewConsensus(testdata(t, "consensus-ns"))
	if err != nil {
		t.Fatal(err)
	}
	m.SetConsensus(c)
	s := New(Config{Docs: m, Memory: mem, Now: func() time.Time { return when }, Extra: func(_ context.Context, _ Peer, r *Request) *Response {
		if r.Path == "/large" { // one document whose encodings are not kept
			return &Response{Status: 200, Reason: "OK", Parts: []*Doc{m.Descriptors()[0], m.Descriptors()[1]}}
		}
		return nil
	}})
	for _, enc := range []string{"identity", "gzip", "deflate", "x-zstd"} {
		for _, path := range []string{"/tor/server/all", "/large", "/tor/status-vote/current/consensus"} {
			request := fmt.Sprintf("GET %s HTTP/1.0\r\nAccept-Encoding: %s\r\n\r\n", path, enc)
			if got := status(t, s, from("192.0.2.1"), request); got != 200 { // what is made once is made now
				t.Fatal(got)
			}
			before, counted := liveHeap(), mem.Used()
			var conns []net.Conn
			for range requests {
				c, _ := connect(t, s, from("192.0.2.1"))
				send(t, c, request)
				if _, err := c.Read(make([]byte, 1)); err != nil { // the answer has begun
					t.Fatal(err)
				}
				conns = append(conns, c)
			}
			account, heap := (mem.Used()-counted)/requests, (liveHeap()-before)/requests
			t.Logf("%s %s: %d bytes each by the account, %d by the heap", path, enc, account, heap)
			if account <= 0 || account > most || heap > most {
				t.Errorf("%s %s: %d bytes are counted for each, %d are held", path, enc, account, heap)
			}
			for _, c := range conns {
				c.Close()
			}
			for mem.Used() > counted { // until the last is gone
				runtime.Gosched()
			}
		}
	}
}

// TestPieces: what is compressed piece by piece is one stream of its encoding,
// whatever the sizes of the documents.
func TestPieces(t *testing.T) {
	for _, size := range []int{1, 100, pieceSize - 1, pieceSize, pieceSize + 1, 3*pieceSize + 7} {
		for _, n := range []int{1, 2, 40} {
			m := manyDescriptors(t, n, size)
			var plain []byte
			for _, d := range m.Descriptors() {
				plain = append(plain, d.Bytes()...)
			}
			s := New(Config{Docs: m})
			for enc, decode := range decoders {
				res, body := ask(t, s, "GET /tor/server/all HTTP/1.0\r\nAccept-Encoding: "+enc+"\r\n\r\n")
				if got := res.Header.Get("Content-Encoding"); got != enc {
					t.Fatalf("%s: it is %s", enc, got)
				}
				if known := res.ContentLength >= 0; known != (enc == "identity" || len(plain) <= pieceSize) {
					t.Errorf("%s, %d bytes: the length is %d", enc, len(plain), res.ContentLength)
				}
				r, err := decode(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%s, %d of %d bytes: %d bytes, %v", enc, n, size, len(got), err)
				}
			}
		}
	}
}

// uploads is a server that takes posts.
func uploads(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Docs: new(Memory), MaxUpload: func(string) int { return 1 << 20 }, MaxUploads: 800 << 10, Authorities: []netip.Addr{netip.MustParseAddr("198.51.100.1")},
		Extra: func(_ context.Context, _ Peer, r *Request) *Response { return Short(200, "OK") }}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func post(n int) string {
	return fmt.Sprintf("POST /tor/ HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
}

// TestUploadsAreBounded: who takes no uploads reads none. Who does counts what
// has come of them, and not what was announced: for each address, and for all,
// with room that is kept for authorities. In virtual time, because a peer that is
// refused has two seconds to hear it.
func TestUploadsAreBounded(t *testing.T) {
	synctest.Test(t, uploadsAreBounded)
}

func uploadsAreBounded(t *testing.T) {
	if got := status(t, New(Config{Docs: new(Memory)}), Peer{}, post(10)); got != 400 {
		t.Error("a server that takes no uploads:", got)
	}
	mem := account.New(1 << 40)
	s := uploads(t, func(c *Config) { c.Memory = mem })
	const announce = "POST /tor/ HTTP/1.0\r\nContent-Length: 1000000\r\n\r\n"
	for i := range 40 {
		c, _ := connect(t, s, from(fmt.Sprintf("192.0.2.%d", i)))
		send(t, c, announce+"and no more")
	}
	if got := status(t, s, from("203.0.113.1"), post(90<<10)); got != 200 {
		t.Error("forty have announced much, and another is answered", got)
	}
	c, done := connect(t, s, from("203.0.113.1"))
	send(t, c, announce+strings.Repeat("x", 60<<10))
	if got := status(t, s, from("203.0.113.1"), post(90<<10)); got != 503 {
		t.Error("one address holds an eighth, and has more taken:", got)
	}
	if n := mem.Used(); n < 60<<10 || n > 40*30<<10+128<<10 {
		t.Errorf("%d bytes are counted", n)
	}
	c.Close()
	<-done
	for i := range 8 { // of many addresses, until strangers have three quarters
		c, _ := connect(t, s, from(fmt.Sprintf("203.0.113.%d", i+2)))
		go io.WriteString(c, announce+strings.Repeat("x", 60<<10)) // the last ones are refused meanwhile
		if i < 6 {
			for s.room.holds(from(fmt.Sprintf("203.0.113.%d", i+2)).Addr) < 60<<10 {
				runtime.Gosched()
			}
		} else if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 503 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if got := status(t, s, from("198.51.100.1"), post(90<<10)); got != 200 {
		t.Error("an authority is answered", got)
	}
}

// holds returns what an address's uploads hold.
func (m *room) holds(a netip.Addr) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.guests[guestKey{addr: netaddr.Peer(a)}]; g != nil {
		return g.uploads
	}
	return 0
}

// TestShares: one link, one address and one way in each have their part of the
// room, and authorities and listed relays find some when strangers have all.
func TestShares(t *testing.T) {
	m := filled(t)
	s := New(Config{Docs: m, MaxConns: 64, MaxPerAddr: 8, MaxPerLink: 4, Authorities: []netip.Addr{netip.MustParseAddr("198.51.100.1")}})
	const request = "GET / HTTP/1.0\r\n\r\n"
	fill := func(peer Peer) (n int) {
		t.Helper()
		for ; n < 200; n++ {
			v := s.room.enter(peer, s.rank(peer.Addr))
			if v == nil {
				return n
			}
			t.Cleanup(v.leave)
		}
		return n
	}
	client := Peer{Addr: netip.MustParseAddr("192.0.2.1"), Tunnelled: true, Link: 1}
	if n := fill(client); n != 4 {
		t.Errorf("one link has %d requests", n)
	}
	client.Link = 2
	if n := fill(client); n != 4 {
		t.Errorf("another link of its address has %d requests", n)
	}
	client.Link = 3
	if n := fill(client); n != 0 {
		t.Errorf("a third link of its address has %d requests", n)
	}
	if n := fill(from("192.0.2.1")); n != 8 {
		t.Errorf("its address has %d requests at the DirPort", n)
	}
	// Behind a transport that says no address, links are all that tells people apart.
	for link := 10; link < 14; link++ {
		if n := fill(Peer{Tunnelled: true, Link: link}); n != 4 {
			t.Errorf("link %d without an address has %d requests", link, n)
		}
	}
	six := from("2001:db8::1")
	if n := fill(six) + fill(from("2001:db8::2")); n != 8 {
		t.Errorf("one /64 has %d requests", n)
	}
	n := 8 + 4*4
	for i := 2; i < 100; i++ {
		n += fill(Peer{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Tunnelled: true})
	}
	if n != 48 {
		t.Errorf("strangers have %d of 64 directory streams", n)
	}
	if got := status(t, s, from("192.0.2.200"), request); got != 404 {
		t.Error("directory streams have shut the DirPort:", got)
	}
	var relay netip.Addr
	for relay = range m.Consensus(netdoc.FlavorMicrodesc).relays {
		break
	}
	if n := fill(Peer{Addr: relay, Tunnelled: true}); n != 8 {
		t.Errorf("a listed relay has %d requests", n)
	}
	if n := fill(Peer{Addr: netip.MustParseAddr("198.51.100.1"), Tunnelled: true}); n != 8 {
		t.Errorf("an authority has %d requests", n)
	}
}

// TestSlowPeers: a byte a minute, sent or taken, keeps no place.
func TestSlowPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manyDescriptors(t, 100, 10<<10)
		s := uploads(t, func(c *Config) { c.Docs, c.Extra = m, nil })
		slowly := func(what string, most time.Duration, request string, step func(net.Conn) error) {
			t.Helper()
			start := time.Now()
			c, done := connect(t, s, Peer{})
			send(t, c, request)
			for step(c) == nil {
				time.Sleep(30 * time.Second)
			}
			<-done
			if d := time.Since(start); d > most {
				t.Errorf("%s: it was kept for %v", what, d)
			}
		}
		write := func(c net.Conn) error { _, err := c.Write([]byte("x")); return err }
		read := func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
		slowly("head", 2*time.Minute, "GET /", write)
		slowly("body", 2*time.Minute, "POST / HTTP/1.0\r\nContent-Length: 100000\r\n\r\n", write)
		slowly("answer", 3*time.Minute, "GET /tor/server/all HTTP/1.0\r\n\r\n", read)
		slowly("compressed", 3*time.Minute, "GET /tor/server/all HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n", read)
		// Slow, but not too slow: half as fast again as must be.
		start, n := time.Now(), 0
		c, _ := connect(t, s, Peer{})
		send(t, c, "GET /tor/server/all HTTP/1.0\r\n\r\n")
		for {
			k, err := io.ReadFull(c, make([]byte, 30000))
			n += k
			if err != nil {
				break
			}
			time.Sleep(10 * time.Second)
		}
		if n < 1000<<10 {
			t.Errorf("%d bytes after %v", n, time.Since(start))
		}
	})
}

// TestToil: who makes the server work has to wait, and others do not.
func TestToil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := uploads(t, func(c *Config) {
			c.Extra = func(context.Context, Peer, *Request) *Response {
				time.Sleep(500 * time.Millisecond)
				return Short(400, "no")
			}
		})
		got := map[int]int{}
		for range 10 {
			got[status(t, s, from("192.0.2.1"), post(10))]++
		}
		if got[400] != 5 || got[503] != 5 {
			t.Errorf("answers %v", got)
		}
		if got := status(t, s, from("192.0.2.2"), post(10)); got != 400 {
			t.Error("another address:", got)
		}
		for range 10 {
			if got := status(t, s, from("198.51.100.1"), post(10)); got != 400 {
				t.Error("an authority:", got)
			}
		}
		time.Sleep(20 * time.Second)
		if got := status(t, s, from("192.0.2.1"), post(10)); got != 400 {
			t.Error("later:", got)
		}
		time.Sleep(time.Hour)
		s.room.mu.Lock()
		defer s.room.mu.Unlock()
		if s.room.sweepLocked(); len(s.room.guests) > maxGuests {
			t.Errorf("%d addresses are remembered", len(s.room.guests))
		}
		for key, g := range s.room.guests {
			if g.open == 0 {
				t.Errorf("%v is remembered", key)
			}
		}
	})
}

// TestDiffIsMadeOnce: all who ask for a diff at the same time share one.
func TestDiffIsMadeOnce(t *testing.T) {
	s := New(Config{Docs: filled(t), Now: func() time.Time { return when }})
	sum, err := netdoc.SHA3Signed(testdata(t, "consensus-microdesc-old"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.cfg.Docs.Consensus(netdoc.FlavorMicrodesc)
	docs := make([]*Doc, 50)
	var wg sync.WaitGroup
	for i := range docs {
		wg.Go(func() { docs[i] = s.diffTo(c, []string{hex.EncodeToString(sum[:])}) })
	}
	wg.Wait()
	for _, d := range docs {
		if d == nil || d != docs[0] {
			t.Fatal("another diff")
		}
	}
	if n := s.stats.DiffsMade.Load(); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	// Who still holds the consensus before does not throw it away.
	older := *c
	older.SHA3[0]++
	older.ValidAfter = c.ValidAfter.Add(-time.Hour)
	s.diffTo(&older, []string{hex.EncodeToString(sum[:])})
	if s.diffTo(c, []string{hex.EncodeToString(sum[:])}) != docs[0] {
		t.Error("it was made again")
	}
}
