package dirclient

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz/lzma"

	"github.com/chivenet/chive/internal/fault"
)

// exchange is a stream with a canned answer.
type exchange struct {
	io.Reader
	sent bytes.Buffer
}

func (e *exchange) Write(p []byte) (int, error) { return e.sent.Write(p) }

func ask(r *request, answer string) (*response, string, error) {
	e := &exchange{Reader: strings.NewReader(answer)}
	res, err := r.roundTrip(e, func() {})
	return res, e.sent.String(), err
}

func TestRequestText(t *testing.T) {
	r := &request{path: "/tor/x", to: netip.MustParseAddrPort("[2001:db8::1]:9001"), limit: 100, since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), diff: "AB"}
	_, sent, err := ask(r, "HTTP/1.0 304 Not modified\r\n\r\n")
	want := "GET /tor/x HTTP/1.0\r\nHost: [2001:db8::1]:9001\r\nIf-Modified-Since: Fri, 02 Jan 2026 03:04:05 GMT\r\nAccept-Encoding: x-tor-lzma, x-zstd, deflate, gzip, identity\r\nX-Or-Diff-From-Consensus: AB\r\n\r\n"
	if err != nil || sent != want {
		t.Errorf("%q %v", sent, err)
	}
}

func compressed(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "x-zstd":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	case "x-tor-lzma":
		z, err := lzma.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return text
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEncodings(t *testing.T) {
	text := strings.Repeat("directory ", 1000)
	for _, coding := range []string{"", "identity", "gzip", "deflate", "x-zstd", "x-tor-lzma"} {
		body := compressed(t, coding, text)
		head := "HTTP/1.0 200 OK\r\nDate: Fri, 02 Jan 2026 03:04:05 GMT\r\nContent-Encoding: " + coding + "\r\n\r\n"
		res, _, err := ask(&request{limit: 10000}, head+body)
		if err != nil || string(res.body) != text || res.date.Year() != 2026 {
			t.Errorf("%q: %v", coding, err)
		}
		if _, _, err := ask(&request{limit: 9999}, head+body); err == nil || !strings.Contains(err.Error(), "more than 9999 bytes") {
			t.Errorf("%q: a body over the limit: %v", coding, err)
		}
		if coding != "" && coding != "identity" {
			if _, _, err := ask(&request{limit: 10000}, head+body[:len(body)/2]); err == nil {
				t.Errorf("%q: a truncated body was accepted", coding)
			}
		}
	}
}

// Ten gigabytes of zeros in a few kilobytes must cost no more than the limit.
func TestBomb(t *testing.T) {
	for _, coding := range []string{"gzip", "x-zstd", "x-tor-lzma"} {
		body := compressed(t, coding, strings.Repeat("\x00", 30<<20))
		_, _, err := ask(&request{limit: 1 << 20}, "HTTP/1.0 200 OK\r\nContent-Encoding: "+coding+"\r\n\r\n"+body)
		if err == nil {
			t.Errorf("%s: accepted", coding)
		}
	}
}

func TestMalformedResponses(t *testing.T) {
	for _, s := range []string{
		"", "HTTP", "HTTP/1.0\r\n\r\n", "HTTP/1.0 20 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "SSH-2.0-x\r\n\r\n",
		"HTTP/1.0 200 OK\r\n", "HTTP/1.0 200 OK\r\nno colon\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n1234",
		"HTTP/1.0 200 OK\r\nContent-Encoding: x-tor-lzma\r\n\r\n1234", "HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n1234",
		"HTTP/1.0 200 " + strings.Repeat("a", 5000) + "\r\n\r\n",
	} {
		if res, _, err := ask(&request{limit: 100}, s); err == nil || fault.KindOf(err) == fault.Unknown {
			t.Errorf("%.60q: %+v %v", s, res, err)
		}
	}
	res, _, err := ask(&request{limit: 100}, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n1234")
	if err != nil || string(res.body) != "123" {
		t.Errorf("a body is longer than it says: %v", err)
	}
}

func FuzzResponse(f *testing.F) {
	for _, coding := range []string{"", "gzip", "deflate", "x-zstd"} {
		f.Add([]byte("HTTP/1.0 200 OK\r\nContent-Length: 90\r\nContent-Encoding: " + coding + "\r\n\r\n" + compressed(f, coding, "some text")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := (&request{limit: 1000}).roundTrip(&exchange{Reader: bytes.NewReader(b)}, func() {})
		if (res == nil) == (err == nil) && err == nil {
			t.Fatal("neither an answer nor an error")
		}
		if err == nil && len(res.body) > 1000 {
			t.Fatal("over the limit")
		}
	})
}
