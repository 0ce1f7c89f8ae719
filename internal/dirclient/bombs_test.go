package dirclient

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// endless repeats a text, and counts what was read of it.
type endless struct {
	text string
	at   int
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	e.read += int64(len(p))
	return len(p), nil
}

// skippable is a frame of zstd that says nothing (RFC 8878, 3.1.2).
const skippable = "\x50\x2a\x4d\x18\x00\x00\x00\x00"

// What decodes to too much, or goes on without end, is refused when it has reached the
// limit: whether it is one stream, or many that are each below it, or nothing at all, again
// and again.
func TestBombOfManyStreams(t *testing.T) {
	const limit = 1 << 20
	half := strings.Repeat("\x00", limit/2)
	gz, zl := compressed(t, "gzip", ""), compressed(t, "deflate", "")
	zero := "\x00\x00\x00\xff\xff" // an empty block of deflate
	for _, c := range []struct {
		what, coding, first, then string
		most                      int64 // that is read of it
	}{
		{"many gzip streams", "gzip", "", compressed(t, "gzip", half), 1 << 16},
		{"many zstd frames", "x-zstd", "", compressed(t, "x-zstd", half), limit + 1<<17},
		{"one endless zlib stream", "deflate", compressed(t, "deflate", half)[:2], strings.Repeat("\x00\x10\x00\xef\xff"+strings.Repeat("x", 16), 9), 2 * limit},
		{"empty gzip streams", "gzip", "", gz, limit + 1<<16},
		{"empty zlib streams", "deflate", "", zl, 1 << 16}, // the first one is all
		{"empty zstd frames", "x-zstd", "", compressed(t, "x-zstd", ""), limit + 1<<17},
		{"frames to be skipped", "x-zstd", "", skippable, limit + 1<<17},
		{"empty blocks of gzip", "gzip", gz[:10], zero, limit + 1<<16},
		{"empty blocks of zlib", "deflate", zl[:2], zero, limit + 1<<16},
		{"no encoding", "identity", "", half, limit + 1<<16},
	} {
		e := &endless{text: c.then}
		if c.then == "" {
			t.Fatal(c.what)
		}
		head := "HTTP/1.0 200 OK\r\nContent-Encoding: " + c.coding + "\r\n\r\n" + c.first
		stream := struct {
			io.Reader
			io.Writer
		}{io.MultiReader(strings.NewReader(head), e), io.Discard}
		res, err := (&request{limit: limit}).roundTrip(stream, func() {})
		if c.what == "empty zlib streams" {
			if err != nil || len(res.body) > 0 {
				t.Errorf("%s: %v", c.what, err)
			}
		} else if !fault.Is(err, fault.Resource) {
			t.Errorf("%s: %v", c.what, err)
		}
		if e.read > c.most {
			t.Errorf("%s: %d bytes were read", c.what, e.read)
		}
		if res != nil && len(res.body) > limit {
			t.Errorf("%s: %d bytes came of it", c.what, len(res.body))
		}
	}
}

// A few honest streams or frames are one document.
func TestManyStreams(t *testing.T) {
	for _, coding := range []string{"gzip", "x-zstd"} {
		body := compressed(t, coding, "one ") + compressed(t, coding, "") + compressed(t, coding, "two")
		res, _, err := ask(&request{limit: 1000}, "HTTP/1.0 200 OK\r\nContent-Encoding: "+coding+"\r\n\r\n"+body)
		if err != nil || string(res.body) != "one two" {
			t.Errorf("%s: %v %v", coding, res, err)
		}
	}
}

// A body that ends too early, at any byte, is an error, and what came before it is a
// beginning of the document.
func TestTruncatedStreams(t *testing.T) {
	var text bytes.Buffer
	for i := range 300 {
		fmt.Fprintf(&text, "line %d of a document %x\n", i, i*i*i)
	}
	for _, coding := range []string{"gzip", "deflate", "x-zstd", "x-tor-lzma"} {
		body := compressed(t, coding, text.String())
		for n := range body {
			res, _, err := ask(&request{limit: 1 << 20}, "HTTP/1.0 200 OK\r\nContent-Encoding: "+coding+"\r\n\r\n"+body[:n])
			if n == 0 && coding == "x-zstd" { // no frame is a document without bytes
				continue
			}
			if err == nil {
				t.Errorf("%s: cut at %d of %d: accepted", coding, n, len(body))
			}
			if res != nil && !strings.HasPrefix(text.String(), string(res.body)) {
				t.Errorf("%s: cut at %d: other text", coding, n)
			}
		}
	}
}

// A window that nobody needs is not given: its memory would be that which the cache chose.
func TestWideWindow(t *testing.T) {
	body := []byte(compressed(t, "x-tor-lzma", "x"))
	body[1], body[2], body[3], body[4] = 0, 0, 0, 0x40 // 1 GB, in the header
	for i := 5; i < 13; i++ {
		body[i] = 0xff // of unknown length
	}
	_, _, err := ask(&request{limit: 1000}, "HTTP/1.0 200 OK\r\nContent-Encoding: x-tor-lzma\r\n\r\n"+string(body))
	if err == nil || !strings.Contains(err.Error(), "dictionary") {
		t.Error(err)
	}
}

// Encodings that Chive does not decode are refused.
func TestOtherEncodings(t *testing.T) {
	for _, coding := range []string{"lzma", "xz", "br", "compress", "gzip, gzip", "GZIP", "zstd"} {
		for _, body := range []string{"", "\xfd7zXZ\x00\x00\x04", compressed(t, "gzip", "x"), "x"} {
			if _, _, err := ask(&request{limit: 1000}, "HTTP/1.0 200 OK\r\nContent-Encoding: "+coding+"\r\n\r\n"+body); !fault.Is(err, fault.Protocol) {
				t.Errorf("%s: %v", coding, err)
			}
		}
	}
}

// TestFramesThatStateTheirSizes: what each of many small frames says of its size has nothing moved that came before it.
func TestFramesThatStateTheirSizes(t *testing.T) {
	const limit = 1 << 20
	frame := "\x28\xb5\x2f\xfd\x20\x11\x8b\x00\x00x" // 17 bytes: one block of a byte that is repeated (RFC 8878, 3.1.1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := decode(strings.NewReader(strings.Repeat(frame, limit/17)), "x-zstd", limit)
	runtime.ReadMemStats(&after)
	if err != nil || len(body) != limit/17*17 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if _, err := decode(strings.NewReader(strings.Repeat(frame, limit/17+1)), "x-zstd", limit); !fault.Is(err, fault.Resource) {
		t.Errorf("%v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 20*limit {
		t.Errorf("%d bytes were allocated for %d", n, limit)
	}
}
