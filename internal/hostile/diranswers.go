package hostile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The answers of caches. Insn.A, modulo, selects one; B and C are its parameters.
const (
	answerDirRight     = iota
	answerDirStatus    // another status
	answerDirLength    // a wrong Content-Length
	answerDirCut       // it ends early
	answerDirFlip      // one byte is changed
	answerDirEndless   // zeros without end
	answerDirBomb      // zeros, compressed
	answerDirSlow      // byte by byte
	answerDirNever     // nothing
	answerDirLabel     // the coding is not the one that the header names
	answerDirOther     // another document
	answerDirHeads     // headers without end
	answerDirRepeat    // the document several times
	answerDirDiff      // a diff to a consensus that the client does not have
	answerDirHangUp    // the stream ends
	answerDirNobody    // no stream can be opened
	answerDirTrickle   // it takes minutes
	answerDirBackwards // its parts in another order
	answerDirKinds
)

var codings = []string{"identity", "deflate", "gzip", "x-zstd", "x-tor-lzma", ""}

// encode encodes a body with a content coding.
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

// document returns the honest answer to a request.
func document(path string) []byte {
	n, err := dirNet()
	if err != nil {
		return nil // newDirWorld has reported it
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

// dirSizes are the numbers of zero bytes in an answer.
var dirSizes = []int{1, 1000, 1 << 16, 1 << 20, 9 << 20, 33 << 20}

// bombs are compressed zeros. All runs share them.
var bombs sync.Map

func bomb(coding string, size int) []byte {
	type key struct {
		coding string
		size   int
	}
	if b, ok := bombs.Load(key{coding, size}); ok {
		return b.([]byte)
	}
	b := encode(coding, make([]byte, size))
	bombs.Store(key{coding, size}, b)
	return b
}

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
		_, _ = c.Write(head(-1))
		_, _ = c.Write(bomb(coding, pick(dirSizes, how.B)))
		return
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
