package hostile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// dirWorld is a directory client, all of whose caches are hostile for as long as
// the program runs. Afterwards they are honest, and the client must get ready.
type dirWorld struct {
	t      *testing.T
	net    *simnet.Network
	client *dirclient.Client
	stop   context.CancelFunc
	ended  chan error
	wg     sync.WaitGroup // what caches are doing
	held   atomic.Int64   // streams that the client has not closed

	mu      sync.Mutex        // guards what follows
	scripts []Insn            // of the requests to come; owned by those who ask
	open    map[net.Conn]bool // the caches' ends
	asked   int
	next    int
	honest  bool
}

var dirNet = sync.OnceValues(func() (*dirgen.Net, error) {
	return dirgen.New(dirgen.Options{Relays: 40, ValidAfter: epoch.Add(-10 * time.Minute), Seed: 1})
})

func makeDirNet() error {
	_, err := dirNet()
	return err
}

func newDirWorld(t *testing.T) *dirWorld {
	n, err := dirNet()
	if err != nil {
		t.Fatal(err)
	}
	w := &dirWorld{t: t, net: simnet.NewNetwork(), ended: make(chan error, 1), open: map[net.Conn]bool{}}
	w.client = dirclient.New(dirclient.Config{Network: n.Network, Dialer: w})
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.ended <- w.client.Run(ctx) }()
	return w
}

// OpenDir implements dirclient.Dialer.
func (w *dirWorld) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	w.mu.Lock()
	w.asked++
	w.next++
	cache := ident.RelayID{RSA: ident.RSAID{0xca, byte(w.next % 5)}}
	var how *Insn
	if len(w.scripts) > 0 {
		how = &w.scripts[0]
		w.scripts = w.scripts[1:]
	}
	honest := w.honest
	w.mu.Unlock()
	if how == nil {
		how = &Insn{A: answerDirNever}
		if honest {
			how = &Insn{A: answerDirRight}
		}
	}
	if how.A%answerDirKinds == answerDirNobody {
		return dirclient.Stream{}, fault.New(fault.Network, "nobody is there")
	}
	here, there := simnet.Pipe(netip.AddrPortFrom(honestAddress, 1), address(nodeHostile))
	w.mu.Lock()
	w.open[there] = true
	w.mu.Unlock()
	w.wg.Go(func() {
		defer func() {
			there.Close()
			w.mu.Lock()
			delete(w.open, there)
			w.mu.Unlock()
		}()
		w.serve(there, *how)
	})
	w.held.Add(1)
	return dirclient.Stream{ReadWriteCloser: &heldConn{Conn: here, held: &w.held}, Cache: cache}, nil
}

// heldConn counts streams that the client has not closed.
type heldConn struct {
	net.Conn
	once sync.Once
	held *atomic.Int64
}

func (c *heldConn) Close() error {
	c.once.Do(func() { c.held.Add(-1) })
	return c.Conn.Close()
}

// ReportDir implements dirclient.Dialer.
func (w *dirWorld) ReportDir(ident.RelayID, dirclient.Purpose, error) {}

func (w *dirWorld) settle() {}

func (w *dirWorld) finish() {
	w.mu.Lock()
	w.honest, w.scripts = true, nil
	for c := range w.open {
		_ = c.Close()
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Minute)
	if _, err := w.client.Wait(ctx); err != nil {
		w.t.Errorf("with honest caches the client is not ready: %v; it asked %d times", err, w.asked)
	}
	cancel()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Error("the directory client: ", err)
	}
	if n := w.held.Load(); n > 0 {
		w.t.Errorf("%d streams to caches are left open", n)
	}
	w.wg.Wait()
}

// The answers of caches: what Insn.A of an answer counts modulo; B and C say how.
const (
	answerDirRight     = iota
	answerDirStatus    // another status
	answerDirLength    // a wrong Content-Length
	answerDirCut       // it ends early
	answerDirFlip      // a byte is another
	answerDirEndless   // zeros without end
	answerDirBomb      // zeros, compressed
	answerDirSlow      // byte by byte
	answerDirNever     // nothing
	answerDirLabel     // the coding is another than it says
	answerDirOther     // another document
	answerDirHeads     // headers without end
	answerDirRepeat    // the document several times
	answerDirDiff      // a difference to what the client has not
	answerDirHangUp    // the stream ends
	answerDirNobody    // there is no stream
	answerDirTrickle   // it takes minutes
	answerDirBackwards // its parts in another order
	answerDirKinds
)

var codings = []string{"identity", "deflate", "gzip", "x-zstd", "x-tor-lzma", ""}

// encode applies a coding.
func encode(coding string, body []byte) []byte {
	var buf bytes.Buffer
	var z io.WriteCloser
	switch coding {
	case "deflate":
		z = zlib.NewWriter(&buf)
	case "gzip":
		z = gzip.NewWriter(&buf)
	case "x-zstd":
		z, _ = zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<18))
	default:
		return body
	}
	_, _ = z.Write(body)
	_ = z.Close()
	return buf.Bytes()
}

// document is the honest answer to a request.
func document(path string) []byte {
	n, err := dirNet()
	if err != nil {
		return nil // newDirWorld has said so
	}
	switch {
	case strings.HasPrefix(path, "/tor/status-vote/current/consensus-microdesc"):
		return n.Consensus
	case strings.HasPrefix(path, "/tor/keys/"):
		return n.Certs
	}
	var out []byte
	for s := range strings.SplitSeq(strings.TrimPrefix(path, "/tor/micro/d/"), "-") {
		if b, err := base64.RawStdEncoding.DecodeString(s); err == nil && len(b) == 32 {
			out = append(out, n.ByDigest[[32]byte(b)]...)
		}
	}
	return out
}

// dirSizes are how many bytes of nothing an answer has.
var dirSizes = []int{1, 1000, 1 << 16, 1 << 20, 9 << 20, 33 << 20, 70 << 20}

// serve answers one request.
func (w *dirWorld) serve(c net.Conn, how Insn) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body := document(req.URL.Path)
	coding := pick(codings, how.C&7)
	label, status, length := coding, "200 OK", -1
	if body == nil {
		status = "404 Not Found"
	}
	head := func(n int) []byte {
		s := fmt.Sprintf("HTTP/1.0 %s\r\nDate: %s\r\nContent-Encoding: %s\r\n", status, now().UTC().Format(http.TimeFormat), label)
		if n >= 0 {
			s += fmt.Sprintf("Content-Length: %d\r\n", n)
		}
		return []byte(s + "\r\n")
	}
	at := func(of int) int { return int(how.B) * max(of-1, 0) / math.MaxUint8 }
	patience := func() { _ = c.SetWriteDeadline(now().Add(time.Minute)) }
	patience()
	switch how.A % answerDirKinds {
	case answerDirStatus:
		status = pick([]string{"304 Not Modified", "404 Not Found", "503 Busy", "200", "999", "-1 x", "20 0", "301 Moved", ""}, how.B)
	case answerDirLength:
		length = pick([]int{0, 1, len(body) - 1, len(body) + 1, 1 << 30, math.MaxInt}, how.B)
	case answerDirCut:
		length = len(body)
		body = body[:at(len(body))]
	case answerDirFlip:
		body = bytes.Clone(body)
		if len(body) > 0 {
			body[at(len(body))] ^= 1 + how.C>>3
		}
	case answerDirEndless:
		_, _ = c.Write(head(-1))
		for err := error(nil); err == nil; _, err = c.Write(make([]byte, 64<<10)) {
			patience()
		}
		return
	case answerDirBomb:
		body = make([]byte, pick(dirSizes, how.B))
	case answerDirSlow, answerDirTrickle:
		all := append(head(-1), encode(coding, body)...)
		step := 1 + len(all)/200
		for ; len(all) > 0 && err == nil; all = all[min(step, len(all)):] {
			patience()
			_, err = c.Write(all[:min(step, len(all))])
			time.Sleep(pick(waits, how.B))
		}
		return
	case answerDirNever:
		_, _ = c.Read(make([]byte, 1)) // until the client gives up
		return
	case answerDirLabel:
		label = pick(codings, how.B)
	case answerDirOther:
		body = document(pick([]string{"/tor/keys/all", "/tor/status-vote/current/consensus-microdesc", "/tor/micro/d/"}, how.B))
	case answerDirHeads:
		for err := error(nil); err == nil; _, err = fmt.Fprintf(c, "X-Head: %s\r\n", strings.Repeat("x", int(how.B))) {
			patience()
		}
		return
	case answerDirRepeat:
		body = bytes.Repeat(body, 2+int(how.B)%14)
	case answerDirDiff:
		body = []byte("network-status-diff-version 1\nhash " + strings.Repeat("A", 64) + " " + strings.Repeat("B", 64) + "\n" + pick([]string{"1,$d\n", "9a\nx\n.\n", "", "5,4d\n", "99999999d\n"}, how.B))
	case answerDirHangUp:
		return
	case answerDirBackwards:
		k := at(len(body))
		body = append(bytes.Clone(body[k:]), body[:k]...)
	}
	if _, err := c.Write(head(length)); err != nil {
		return
	}
	_, _ = c.Write(encode(coding, body))
}

// dirOps is what caches answer. In answer, A is the kind, and B and C say how.
var dirOps = table[*dirWorld]{
	opEnd: {"end", func(w *dirWorld, i Insn) { // of all streams that are open
		w.mu.Lock()
		defer w.mu.Unlock()
		for c := range w.open {
			_ = c.Close()
		}
	}},
	opWait: {"wait", func(w *dirWorld, i Insn) { later(pick(waits, i.A)) }},
	{"answer", func(w *dirWorld, i Insn) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.scripts = append(w.scripts, i)
	}},
}
