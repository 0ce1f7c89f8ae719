package dirserver

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// safeBuffer is a log that several goroutines write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// take returns what was written since the last call.
func (s *safeBuffer) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.b.Reset()
	return s.b.String()
}

// A list of digests loses its malformed words and its repetitions, and keeps its order. A
// request names no more than maxItems, whatever else it has.
func TestDigestList(t *testing.T) {
	word := func(n int) string { return fmt.Sprintf("%040X", n) }
	got := digests[[20]byte](strings.Join([]string{"", "x", word(3), word(1)[1:], word(1) + "00", word(3), strings.ToLower(word(0xab)), "zz" + word(1)[2:], word(1), word(3)}, "+"))
	if want := [][20]byte{{19: 3}, {19: 0xab}, {19: 1}}; !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
	var words []string
	for n := range 3 * maxItems {
		words = append(words, "malformed", word(n), word(0))
	}
	got = digests[[20]byte](strings.Join(words, "+"))
	if len(got) != maxItems || got[maxItems-1] != [20]byte{18: (maxItems - 1) >> 8, 19: (maxItems - 1) & 0xff} {
		t.Errorf("%d digests", len(got))
	}
}

// The same bound holds for microdescriptors.
func TestMicrodescList(t *testing.T) {
	s := New(Config{Docs: filled(t)})
	digest := sha256.Sum256(microdescs(t)[0])
	good := base64.RawStdEncoding.EncodeToString(digest[:])
	for n, want := range map[int]int{0: 200, maxItems - 1: 200, maxItems: 404} {
		path := "/tor/micro/d/"
		for i := range n {
			path += base64.RawStdEncoding.EncodeToString(binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i))) + "-malformed-"
		}
		if status, _ := get(t, s, path+good); status != want {
			t.Errorf("behind %d others: %d", n, status)
		}
	}
}

// Malformed digests in a request are passed over without a line of the log, and those
// between them are answered. A request that is refused costs one line, with nothing of
// what the peer wrote.
func TestMalformedDigests(t *testing.T) {
	var log safeBuffer
	s := New(Config{Docs: filled(t), Now: func() time.Time { return when }, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	const mark = "MALFORMED"
	var micro, desc []string
	for _, text := range microdescs(t) {
		digest := sha256.Sum256(text)
		micro = append(micro, base64.RawStdEncoding.EncodeToString(digest[:]))
	}
	netdoc.ParseRouterDescs(testdata(t, "descriptors"), when, func(d *netdoc.RouterDesc, err error) {
		if err == nil {
			desc = append(desc, hex.EncodeToString(d.Digest[:]))
		}
	})
	mix := func(good []string, sep string) string {
		var out []string
		for _, g := range good {
			out = append(out, mark, g, mark+g, g[1:])
		}
		return strings.Join(append(out, slices.Repeat([]string{mark}, 1000)...), sep)
	}
	for path, starts := range map[string]string{
		"/tor/micro/d/" + mix(micro, "-"):                                        "onion-key",
		"/tor/server/d/" + mix(desc, "+"):                                        "router ",
		"/tor/extra/d/" + mix(desc, "+"):                                         "",
		"/tor/server/fp/" + mark:                                                 "",
		"/tor/keys/fp/" + mark + "+" + mark:                                      "",
		"/tor/keys/sk/" + mark:                                                   "",
		"/tor/keys/fp-sk/" + mark + "-" + mark:                                   "",
		"/tor/status-vote/current/consensus-microdesc/diff/" + mark + "/" + mark: "",
		"/tor/status-vote/current/consensus/" + strings.Repeat(mark+"+", 99):     "",
	} {
		status, body := get(t, s, path)
		if starts != "" && (status != 200 || !bytes.HasPrefix(body, []byte(starts))) || starts == "" && status != 404 {
			t.Errorf("%.40q: status %d", path, status)
		}
		if starts != "" {
			good := map[string]string{"onion-key": "/tor/micro/d/" + strings.Join(micro, "-"), "router ": "/tor/server/d/" + strings.Join(desc, "+")}[starts]
			if _, want := get(t, s, good); !bytes.Equal(body, want) {
				t.Errorf("%.40q: %d bytes, not the %d that the good digests alone get", path, len(body), len(want))
			}
		}
		if text := log.take(); text != "" {
			t.Errorf("%.40q: the log has %q", path, text)
		}
	}
	status, body := get(t, s, "/tor/status-vote/current/consensus-microdesc", "X-Or-Diff-From-Consensus: "+mark+", "+strings.Repeat(mark+",", 999))
	if text := log.take(); status != 200 || text != "" || netdoc.IsDiff(body) {
		t.Errorf("diff from malformed digests: %d, %q", status, text)
	}
	for _, q := range []string{
		"GET /tor/micro/d/" + mark + "\r\n\r\n", "GET " + mark + " HTTP/1.0\r\n\r\n", mark + "\r\n\r\n", "GET http://" + mark + " HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.0\r\n" + mark + "\r\n\r\n", "POST /tor/ HTTP/1.0\r\nContent-Length: " + mark + "\r\n\r\n",
		"GET / HTTP/1.0\r\n" + strings.Repeat("A: "+mark+"\r\n", maxLines+1) + "\r\n",
	} {
		if res, _ := ask(t, s, q); res.StatusCode != 400 {
			t.Errorf("%.40q: %s", q, res.Status)
		}
		if text := log.take(); strings.Count(text, "\n") != 1 || strings.Contains(text, mark) {
			t.Errorf("%.40q: the log has %q", q, text)
		}
	}
}

// What is uploaded is taken as it is: nothing decodes it, whatever its headers say.
func TestUploadsAreNotDecoded(t *testing.T) {
	s := New(Config{Docs: new(Memory), MaxUpload: func(string) int { return 1 << 20 }, Extra: func(_ context.Context, _ Peer, r *Request) *Response {
		return OK(r.Body, 0)
	}})
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write(make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"Content-Encoding: deflate\r\n", "Content-Encoding: gzip\r\n", "Content-Encoding: x-zstd\r\nTransfer-Encoding: deflate\r\n"} {
		for _, path := range []string{"/tor/", "/tor/.z"} {
			res, body := ask(t, s, fmt.Sprintf("POST %s HTTP/1.0\r\n%sContent-Length: %d\r\n\r\n%s", path, head, z.Len(), z.String()))
			if path == "/tor/.z" { // the answer is encoded, as asked for
				r, err := zlib.NewReader(bytes.NewReader(body))
				if err == nil {
					body, err = io.ReadAll(r)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if res.StatusCode != 200 || !bytes.Equal(body, z.Bytes()) {
				t.Errorf("%q: %s, %d bytes", head, res.Status, len(body))
			}
		}
	}
}
