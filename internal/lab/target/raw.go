package target

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"

	"github.com/chivenet/chive/internal/nonblock"
)

// MaxBytes is the largest count that one request may ask for.
const MaxBytes = 1 << 40

// echoBuffer is what one connection of Echo holds, in bytes.
const echoBuffer = 4 << 10

// raw serves one connection of a raw service. After an error it closes the
// connection, so that the client notices.
func (t *Target) raw(s Service, c *net.TCPConn) {
	if !t.track(c) {
		return
	}
	defer t.untrack(c)
	// The target shares the machine with what is measured.
	fast := nonblock.NewSocket(c)
	switch s {
	case Echo:
		// Not from socket to socket: the kernel's pipes would be two more open files for
		// each connection.
		if _, err := io.CopyBuffer(writerOnly{c}, readerOnly{c}, make([]byte, echoBuffer)); err == nil {
			c.CloseWrite()
		}
	case Source:
		n, ok := count(c)
		if !ok {
			return
		}
		if _, err := io.CopyBuffer(writerOnly{fast}, Bytes(n), make([]byte, 64<<10)); err == nil {
			c.CloseWrite()
			io.Copy(io.Discard, c) // let the client end the connection: a reset would destroy data
		}
	case Sink:
		n, ok := count(c)
		if !ok {
			return
		}
		h := sha256.New()
		if got, err := io.CopyBuffer(h, io.LimitReader(readerOnly{fast}, n), make([]byte, 64<<10)); err == nil && got == n {
			c.Write(h.Sum(nil))
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}
	}
}

// count reads a request and returns the number of bytes; ok is false if the
// request must be refused.
func count(r io.Reader) (n int64, ok bool) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, false
	}
	u := binary.BigEndian.Uint64(head[:])
	return int64(u), u <= MaxBytes
}

// writerOnly and readerOnly make io.CopyBuffer use its buffer.
type writerOnly struct{ io.Writer }
type readerOnly struct{ io.Reader }

// track registers a connection so that Close ends it; it returns false after
// Close.
func (t *Target) track(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return false
	}
	t.open[c] = struct{}{}
	return true
}

func (t *Target) untrack(c net.Conn) {
	c.Close()
	t.mu.Lock()
	delete(t.open, c)
	t.mu.Unlock()
}
