package dirserver

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/netdoc"
)

// testdata is what C tor wrote: see internal/netdoc/testdata.
func testdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../netdoc/testdata/ctor/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var when = time.Date(2026, 11, 21, 14, 4, 10, 0, time.UTC)

func filled(t testing.TB) *Memory {
	t.Helper()
	m := new(Memory)
	for _, f := range []string{"consensus-ns", "consensus-microdesc-old", "consensus-microdesc"} {
		c, err := NewConsensus(testdata(t, f))
		if err != nil {
			t.Fatal(err)
		}
		m.SetConsensus(c)
	}
	var certs []*netdoc.AuthCert
	netdoc.ParseAuthCerts(testdata(t, "certs"), func(c *netdoc.AuthCert, err error) {
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, c)
	})
	m.SetCerts(certs)
	for _, text := range microdescs(t) {
		if err := m.AddMicrodesc(sha256.Sum256(text), text); err != nil {
			t.Fatal(err)
		}
	}
	netdoc.ParseRouterDescs(testdata(t, "descriptors"), when, func(d *netdoc.RouterDesc, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AddDescriptor(d, nil); err != nil {
			t.Fatal(err)
		}
	})
	return m
}

// ask makes one request over a pipe.
func ask(t testing.TB, s *Server, request string) (*http.Response, []byte) {
	t.Helper()
	a, b := net.Pipe()
	go s.ServeConn(t.Context(), b, Peer{Addr: netip.MustParseAddr("192.0.2.7")})
	go io.WriteString(a, request)
	res, err := http.ReadResponse(bufio.NewReader(a), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	a.Close()
	return res, body
}

func get(t testing.TB, s *Server, path string, headers ...string) (int, []byte) {
	t.Helper()
	res, body := ask(t, s, "GET "+path+" HTTP/1.0\r\n"+strings.Join(append(headers, ""), "\r\n")+"\r\n")
	return res.StatusCode, body
}

func TestDocuments(t *testing.T) {
	m := filled(t)
	s := New(Config{Docs: m, Now: func() time.Time { return when }})
	c := m.Consensus(netdoc.FlavorMicrodesc)
	full := m.Certs()
	var desc *netdoc.RouterDesc
	netdoc.ParseRouterDescs(testdata(t, "descriptors"), when, func(d *netdoc.RouterDesc, err error) { desc = d })
	mdText := microdescs(t)[0]
	md, err := netdoc.ParseMicrodesc(mdText, nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := c.Signers[0].String()
	all := []string{c.Signers[0].String()[:6], c.Signers[1].String(), c.Signers[2].String()}
	const nobody = "00112233445566778899AABBCCDDEEFF00112233"
	const path = "/tor/status-vote/current/consensus"
	for _, q := range []struct {
		path   string
		status int
		want   []byte
	}{
		{path, 200, testdata(t, "consensus-ns")},
		{path + "-ns", 200, testdata(t, "consensus-ns")},
		{path + "-microdesc", 200, c.Doc.Bytes()},
		{path + "-microdesc/" + strings.Join(all, "+"), 200, c.Doc.Bytes()},
		{path + "-microdesc/" + signer + "+" + nobody, 404, nil},
		{path + "-microdesc/" + nobody, 404, nil},
		{path + "-other", 404, nil},
		{"/tor/keys/all", 200, nil},
		{"/tor/keys/fp/" + full[0].Identity.String(), 200, full[0].Text},
		{"/tor/keys/sk/" + full[1].Signing.String(), 200, full[1].Text},
		{"/tor/keys/fp-sk/" + full[2].Identity.String() + "-" + full[2].Signing.String(), 200, full[2].Text},
		{"/tor/keys/fp-sk/" + full[2].Identity.String() + "-" + full[1].Signing.String(), 404, nil},
		{"/tor/keys/what", 400, nil},
		{"/tor/micro/d/" + base64.RawStdEncoding.EncodeToString(md.Digest[:]), 200, mdText},
		{"/tor/micro/d/AAAA-" + base64.RawStdEncoding.EncodeToString(md.Digest[:]) + "-" + base64.RawStdEncoding.EncodeToString(md.Digest[:]), 200, mdText},
		{"/tor/micro/d/AAAA", 404, nil},
		{"/tor/server/d/" + hex.EncodeToString(desc.Digest[:]), 200, desc.Text},
		{"/tor/server/d/" + nobody, 404, nil},
		{"/tor/server/fp/" + nobody, 404, nil},
		{"/tor/server/all", 200, nil},
		{"/tor/extra/all", 404, nil}, // there is none
		{"/tor/robots.txt", 200, nil},
		{"/", 404, nil},
		{"http://example.com" + path, 200, testdata(t, "consensus-ns")},
	} {
		status, body := get(t, s, q.path)
		if status != q.status || (q.want != nil && !bytes.Equal(body, q.want)) || (status == 200) != (len(body) > 0) {
			t.Errorf("%s: %d and %d bytes, not %d and %d", q.path, status, len(body), q.status, len(q.want))
		}
	}
	if status, _ := get(t, s, path, "If-Modified-Since: "+c.ValidAfter.Add(time.Second).Format(http.TimeFormat)); status != 304 {
		t.Error(status)
	}
	if status, _ := get(t, s, path, "If-Modified-Since: "+c.ValidAfter.Add(-time.Second).Format(http.TimeFormat)); status != 200 {
		t.Error(status)
	}
	if status, _ := get(t, s, "/tor/keys/all", "If-Modified-Since: "+when.AddDate(1, 0, 0).Format(http.TimeFormat)); status != 304 {
		t.Error(status)
	}
	res, _ := ask(t, s, "GET / HTTP/1.0\r\n\r\n")
	if len(res.Header) != 1 || res.Header.Get("Date") != when.Format(http.TimeFormat) {
		t.Error(res.Header)
	}
	res, _ = ask(t, s, "GET /tor/robots.txt HTTP/1.0\r\n\r\n")
	if res.Header.Get("X-Your-Address-Is") != "192.0.2.7" || res.Header.Get("Date") != when.Format(http.TimeFormat) {
		t.Error(res.Header)
	}
	if res, _ = ask(t, s, "POST /tor/ HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi"); res.StatusCode != 400 {
		t.Error(res.Status)
	}
}

// A client that has an earlier consensus gets a diff, and makes the current
// one of it.
func TestDiffs(t *testing.T) {
	m := filled(t)
	s := New(Config{Docs: m, Now: func() time.Time { return when }})
	old := testdata(t, "consensus-microdesc-old")
	sum, err := netdoc.SHA3Signed(old)
	if err != nil {
		t.Fatal(err)
	}
	hash := hex.EncodeToString(sum[:])
	unknown := strings.Repeat("00", 32)
	for _, q := range []string{hash, unknown + ", " + strings.ToUpper(hash)} {
		status, body := get(t, s, "/tor/status-vote/current/consensus-microdesc", "X-Or-Diff-From-Consensus: "+q)
		got, err := netdoc.ApplyDiff(old, body)
		if status != 200 || err != nil || !bytes.Equal(got, testdata(t, "consensus-microdesc")) {
			t.Errorf("%d %v", status, err)
		}
	}
	if _, body := get(t, s, "/tor/status-vote/current/consensus-microdesc", "X-Or-Diff-From-Consensus: "+unknown); netdoc.IsDiff(body) {
		t.Error("a diff from an unknown consensus")
	}
	if status, body := get(t, s, "/tor/status-vote/current/consensus-microdesc/diff/"+hash+"/"); status != 200 || !netdoc.IsDiff(body) {
		t.Error(status)
	}
	if status, _ := get(t, s, "/tor/status-vote/current/consensus-microdesc/diff/"+unknown+"/"); status != 404 {
		t.Error(status)
	}
}

var decoders = map[string]func(io.Reader) (io.Reader, error){
	"identity": func(r io.Reader) (io.Reader, error) { return r, nil },
	"gzip":     func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate":  func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"x-zstd":   func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
}

func TestEncodings(t *testing.T) {
	s := New(Config{Docs: filled(t), Now: func() time.Time { return when }})
	plain := testdata(t, "consensus-ns")
	for _, q := range []struct{ suffix, accept, want string }{
		{"", "", "identity"}, {".z", "", "deflate"}, {"", "gzip, deflate", "gzip"}, {"", "deflate, x-zstd;q=0", "deflate"},
		{".z", "x-zstd, x-tor-lzma, gzip, identity", "x-zstd"}, {"", "identity", "identity"}, {"", "br", "identity"},
	} {
		for range 2 { // the second comes from what is kept
			res, body := ask(t, s, fmt.Sprintf("GET /tor/status-vote/current/consensus%s HTTP/1.0\r\nAccept-Encoding: %s\r\n\r\n", q.suffix, q.accept))
			enc := res.Header.Get("Content-Encoding")
			r, err := decoders[enc](bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if enc != q.want || err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%+v: %s, %v", q, enc, err)
			}
		}
	}
}

// TestOneAddress: who opens connections and says nothing keeps nobody else from
// being answered.
func TestOneAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems' loopback has one address")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := New(Config{Docs: new(Memory), MaxConns: 10, MaxPerAddr: 2})
	go func() { ended <- s.Serve(ctx, l) }()
	open := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(ctx, "tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	answered := func(c net.Conn) bool {
		t.Helper()
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n") // it may be closed
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && res.StatusCode != 404 && res.StatusCode != 503 {
			t.Error(res.Status)
		}
		return err == nil && res.StatusCode == 404
	}
	idle := open("127.0.0.2")
	open("127.0.0.2")
	if answered(open("127.0.0.2")) {
		t.Error("a third connection of one address is answered")
	}
	if !answered(open("127.0.0.3")) {
		t.Fatal("another address is shut out")
	}
	idle.Close()
	for !answered(open("127.0.0.2")) { // once the server has noticed
		if t.Context().Err() != nil {
			t.Fatal("the address is never let in again")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBadRequests(t *testing.T) {
	s := New(Config{Docs: new(Memory), MaxUpload: func(string) int { return 10 }, Extra: func(_ context.Context, _ Peer, r *Request) *Response {
		if r.Method == "POST" {
			return OK(r.Body, 0)
		}
		return nil
	}})
	for _, q := range []string{
		"PUT / HTTP/1.0\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/2\r\n\r\n", "GET relative HTTP/1.0\r\n\r\n", "GET http://x HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.0\r\nno colon\r\n\r\n", "POST / HTTP/1.0\r\n\r\n", "POST / HTTP/1.0\r\nContent-Length: 11\r\n\r\n", "POST / HTTP/1.0\r\nContent-Length: -1\r\n\r\n",
		"GET / HTTP/1.0\r\n" + strings.Repeat("A: b\r\n", 65) + "\r\n", "GET /" + strings.Repeat("a", maxHead) + " HTTP/1.0\r\n\r\n",
	} {
		if res, _ := ask(t, s, q); res.StatusCode != 400 {
			t.Errorf("%.40q: %s", q, res.Status)
		}
	}
	if res, body := ask(t, s, "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789"); res.StatusCode != 200 || string(body) != "0123456789" {
		t.Errorf("%s %q", res.Status, body)
	}
}

// A silent client is left after the time-out, and makes no room for others
// meanwhile.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Docs: new(Memory), MaxConns: 1, Timeout: time.Minute})
		a, b := net.Pipe()
		done := make(chan struct{})
		start := time.Now()
		go func() { s.ServeConn(t.Context(), b, Peer{}); close(done) }()
		synctest.Wait()
		if res, _ := ask(t, s, "GET / HTTP/1.0\r\n\r\n"); res.StatusCode != 503 {
			t.Error(res.Status)
		}
		<-done
		if d := time.Since(start); d != time.Minute {
			t.Errorf("left after %v", d)
		}
		a.Close()
		if res, _ := ask(t, s, "GET / HTTP/1.0\r\n\r\n"); res.StatusCode != 404 {
			t.Error(res.Status)
		}
	})
}

func TestMemoryKeepsThePairBefore(t *testing.T) {
	m := new(Memory)
	var descs []*netdoc.RouterDesc
	netdoc.ParseRouterDescs(testdata(t, "descriptors"), when, func(d *netdoc.RouterDesc, err error) { descs = append(descs, d) })
	one := *descs[0]
	for i := range 4 {
		d := one
		d.Digest[0] = byte(i)
		if err := m.AddDescriptor(&d, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{false, false, true, true} {
		d := one.Digest
		d[0] = byte(i)
		if (m.Descriptor(d) != nil) != want {
			t.Errorf("descriptor %d: there: %v", i, !want)
		}
	}
	if m.DescriptorOf(one.RSA) == nil || len(m.Descriptors()) != 1 {
		t.Error("the newest is not there")
	}
	m.RemoveRelay(one.RSA)
	if len(m.desc) != 0 || m.DescriptorOf(one.RSA) != nil {
		t.Error("something is left")
	}
}

// free has room for everything.
type free struct{}

func (free) head(int)      {}
func (free) body(int) bool { return true }

func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET /tor/keys/all.z HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"))
	f.Add([]byte("POST /tor/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("GET http://a/b HTTP/1.0\n\n"))
	s := New(Config{Docs: filled(f), Now: func() time.Time { return when }})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRequest(bytes.NewReader(b), func(string) int { return 1000 }, free{})
		if err != nil {
			return
		}
		if len(r.Body) > 1000 || !strings.HasPrefix(r.Path, "/") {
			t.Fatalf("%+v", r)
		}
		if res := s.answer(t.Context(), Peer{}, r); res.Status == 0 {
			t.Fatal("no answer")
		}
	})
}

// microdescs returns the texts of the testdata's microdescriptors.
func microdescs(t testing.TB) [][]byte {
	t.Helper()
	return slices.Collect(netdoc.SplitMicrodescs(testdata(t, "microdescs")))
}
