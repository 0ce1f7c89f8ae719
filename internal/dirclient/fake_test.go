package dirclient

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz/lzma"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// world is a network's caches in memory: each stream is a net.Pipe to one of
// them. How they misbehave is set by its fields.
type world struct {
	caches int                                                      // how many there are
	fault  func(cache int, path string, w io.Writer) (handled bool) // nil: none
	delay  func(cache int, path string) time.Duration               // before the answer
	coding string                                                   // content encoding; empty: identity
	rate   int                                                      // bytes a second of the client's link; 0: no limit
	cut    int                                                      // an answer of microdescriptors ends after so many bytes; 0: it does not

	mu       sync.Mutex
	net      *dirgen.Net       // guarded by mu
	diffs    map[string][]byte // guarded by mu; by the digest of the old consensus
	olds     [][]byte          // guarded by mu; former consensuses
	requests []seenRequest     // guarded by mu
	reports  map[int][]error   // guarded by mu
	next     int               // guarded by mu

	link chan struct{} // full while the client's link carries something
}

type seenRequest struct {
	cache  int
	at     time.Time
	path   string
	host   string
	header http.Header
	query  Query
}

func newWorld(n *dirgen.Net) *world {
	return &world{caches: 5, net: n, diffs: map[string][]byte{}, reports: map[int][]error{}, link: make(chan struct{}, 1)}
}

func cacheID(i int) ident.RelayID { return ident.RelayID{RSA: ident.RSAID{0xca, byte(i)}} }

func cacheAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 9001)
}

func (w *world) OpenDir(ctx context.Context, q Query) (Stream, error) {
	w.mu.Lock()
	i := w.next % w.caches
	if q.From != (ident.RelayID{}) && q.Attempt == 0 {
		i = int(q.From.RSA[1])
	}
	for tries := 0; tries < w.caches && slices.Contains(q.Avoid, cacheID(i)); tries++ {
		i = (i + 1) % w.caches
	}
	w.next++
	w.mu.Unlock()
	here, there := net.Pipe()
	go w.serve(i, there, q)
	return Stream{here, cacheID(i), []netip.AddrPort{cacheAddr(i)}}, nil
}

func (w *world) ReportDir(cache ident.RelayID, p Purpose, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports[int(cache.RSA[1])] = append(w.reports[int(cache.RSA[1])], err)
}

func (w *world) serve(cache int, conn net.Conn, q Query) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	w.mu.Lock()
	path := req.URL.Path
	req.URL.Path = strings.TrimSuffix(path, ".z")
	w.requests = append(w.requests, seenRequest{cache, time.Now(), path, req.Host, req.Header, q})
	w.mu.Unlock()
	if w.delay != nil {
		time.Sleep(w.delay(cache, req.URL.Path)) // of the bubble's clock
	}
	if w.fault != nil && w.fault(cache, req.URL.Path, conn) {
		return
	}
	status, body := w.answer(req)
	var buf bytes.Buffer
	switch w.coding {
	case "x-zstd":
		z, _ := zstd.NewWriter(&buf)
		z.Write(body)
		z.Close()
	case "x-tor-lzma":
		z, _ := lzma.NewWriter(&buf)
		z.Write(body)
		z.Close()
	case "deflate":
		z := zlib.NewWriter(&buf)
		z.Write(body)
		z.Close()
	default:
		buf.Write(body)
	}
	fmt.Fprintf(conn, "HTTP/1.0 %d %s\r\nContent-Length: %d\r\nDate: %s\r\nContent-Encoding: %s\r\n\r\n", status, http.StatusText(status), buf.Len(), time.Now().UTC().Format(http.TimeFormat), cmpOr(w.coding, "identity"))
	if w.cut > 0 && strings.HasPrefix(req.URL.Path, "/tor/micro/") {
		buf.Truncate(min(buf.Len(), w.cut))
	}
	if w.rate == 0 {
		conn.Write(buf.Bytes())
		return
	}
	for part := range slices.Chunk(buf.Bytes(), 500) {
		w.link <- struct{}{}
		time.Sleep(time.Duration(len(part)) * time.Second / time.Duration(w.rate))
		<-w.link
		if _, err := conn.Write(part); err != nil {
			return
		}
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (w *world) answer(req *http.Request) (int, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := req.URL.Path
	switch {
	case strings.HasPrefix(path, "/tor/status-vote/current/consensus-microdesc/"):
		if since, err := http.ParseTime(req.Header.Get("If-Modified-Since")); err == nil && !w.net.ValidAfter.After(since) {
			return 304, nil
		}
		if d, ok := w.diffs[req.Header.Get("X-Or-Diff-From-Consensus")]; ok {
			return 200, d
		}
		return 200, w.net.Consensus
	case strings.HasPrefix(path, "/tor/keys/"):
		return 200, w.net.Certs
	case strings.HasPrefix(path, "/tor/micro/d/"):
		var out []byte
		for s := range strings.SplitSeq(strings.TrimPrefix(path, "/tor/micro/d/"), "-") {
			var d [32]byte
			if b, err := base64.RawStdEncoding.DecodeString(s); err == nil && len(b) == 32 {
				out = append(out, w.net.ByDigest[[32]byte(b)]...)
			} else {
				panic(fmt.Sprint("digest ", s, d))
			}
		}
		if out == nil {
			return 404, nil
		}
		return 200, out
	}
	return 404, nil
}

// publish makes the next consensus, with some relays replaced, and, if asked,
// diffs that lead to it from all before.
func (w *world) publish(churn float64, diff bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.net.Consensus
	w.net.Churn(churn)
	w.net.ValidAfter = w.net.ValidAfter.Add(w.net.Interval)
	if err := w.net.Publish(w.net.ValidAfter); err != nil || !diff {
		return err
	}
	w.olds = append(w.olds, old)
	for _, old := range w.olds {
		d, err := netdoc.MakeDiff(old, w.net.Consensus)
		if err != nil {
			return err
		}
		from, err := netdoc.SHA3Signed(old)
		if err != nil {
			return err
		}
		w.diffs[strings.ToUpper(hex.EncodeToString(from[:]))] = d
	}
	return nil
}

// count returns how many requests had a path with the prefix.
func (w *world) count(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if strings.HasPrefix(r.path, prefix) {
			n++
		}
	}
	return n
}

func (w *world) seen() []seenRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}
