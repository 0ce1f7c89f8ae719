package fte

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// sealer turns plaintext into wire bytes. One goroutine at a time uses it.
type sealer interface {
	// room returns the space that seal needs before and after the plaintext in its
	// buffer, and the length of the longest plaintext of one call.
	room() (head, tail, max int)
	// seal returns the wire bytes for buf[off:off+n]; they may alias buf and
	// are valid until the next call.
	seal(buf []byte, off, n int) (wire []byte, err error)
	// finish returns the wire bytes that end the stream, or none if the protocol
	// has no such message.
	finish(buf []byte) (wire []byte, err error)
	// release frees the memory of the last wire bytes.
	release()
}

// opener turns wire bytes into plaintext. One goroutine at a time uses it.
type opener interface {
	// open reads from the received bytes. It returns plaintext and the number of
	// bytes that it used, or else need, the number of bytes that buf must hold
	// before another call can do more. The plaintext may alias buf, and open may
	// overwrite buf. After the peer's last record open returns io.EOF.
	open(buf []byte) (plain []byte, used, need int, err error)
	// eof returns the error for a stream that ends here with rest unopened bytes:
	// io.EOF if the protocol lets a stream end here.
	eof(rest int) error
	// rest frees memory before a wait of unknown length.
	rest()
}

// protocol sets up a connection.
type protocol interface {
	// handshake sets c.seal and c.open; bytes after the peer's handshake stay in
	// c.in. After an error c.in holds all that the peer has sent.
	handshake(c *Conn) error
}

// Conn is a connection whose bytes travel in a format. It is a net.Conn with
// half-close; one Read and one Write may run at the same time.
//
// Its ReadFrom and WriteTo (which io.Copy uses) copy no bytes from one connection's
// buffer to another's, and hold no buffer while they wait.
type Conn struct {
	raw   net.Conn
	proto protocol
	// Only a server sets both: mem counts what the connection holds, and Close
	// calls left.
	mem  *account.Account
	left func()
	// A Listener with a decoy sets patience: a hello that is answered moves the
	// connection's deadline there.
	patience time.Time

	hsMu   sync.Mutex // held during the handshake; guards hsDone, hsErr and spoke
	hsDone bool
	hsErr  error
	spoke  bool // the server has answered the hello

	// Owned by the reader, guarded by rmu (and by hsMu before hsDone).
	rmu     sync.Mutex
	open    opener
	src     *source
	in      inbox
	plain   []byte // opened but not yet delivered; aliases in
	pending int    // bytes of in from which plain was opened
	need    int    // bytes that in must hold before open can continue
	rerr    error
	spaceFn func() []byte
	restFn  func()

	// Owned by the writer, guarded by wmu.
	wmu    sync.Mutex
	seal   sealer
	werr   error
	closed bool // CloseWrite was called
	delay  time.Duration
}

func newConn(raw net.Conn, p protocol) *Conn {
	c := &Conn{raw: raw, proto: p, src: newSource(raw)}
	c.spaceFn = func() []byte { return c.in.space(c.need) }
	c.restFn = func() {
		c.in.rest()
		if c.open != nil {
			c.open.rest()
		}
	}
	return c
}

// count sets the account that pays for the connection's memory, and the function
// that each Close calls. Call count before the handshake.
func (c *Conn) count(mem *account.Account, left func()) {
	c.mem, c.in.mem, c.left = mem, mem, left
	mem.Reserve(connCost)
}

// connCost is the memory of a server's connection, in bytes, without its buffers:
// its keys and coder, and what the listener and the Go runtime keep.
const connCost = 16 << 10

// Handshake runs the protocol's handshake, once; Read and Write call it first.
// After a failed handshake the connection is unusable.
func (c *Conn) Handshake() error { return c.HandshakeContext(context.Background()) }

// HandshakeContext is Handshake with a context: it gives up when ctx ends.
func (c *Conn) HandshakeContext(ctx context.Context) error {
	c.hsMu.Lock()
	defer c.hsMu.Unlock()
	if c.hsDone {
		return c.hsErr
	}
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { c.raw.SetDeadline(time.Unix(1, 0)) }))
	err := c.proto.handshake(c)
	if !stop() {
		err = fault.Ended(ctx, "format handshake: %w", context.Cause(ctx))
	}
	c.hsDone, c.hsErr = true, err
	c.need = 0
	return err
}

// fill reads once. Its aim is that the buffer holds at least want bytes.
func (c *Conn) fill(want int) error {
	c.need = want
	n, err := c.src.read(c.spaceFn, c.restFn)
	c.in.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// next opens the next piece of plaintext into c.plain.
func (c *Conn) next() error {
	c.in.take(c.pending)
	c.plain, c.pending = nil, 0
	for c.rerr == nil {
		if b := c.in.bytes(); len(b) >= c.need {
			plain, used, need, err := c.open.open(b)
			if err != nil {
				c.fail(err)
				break
			}
			c.need = need
			if len(plain) > 0 {
				c.plain, c.pending = plain, used
				return nil
			}
			c.in.take(used)
			continue
		}
		if err := c.fill(c.need); err != nil {
			if errors.Is(err, io.EOF) {
				c.fail(c.open.eof(c.in.w - c.in.r))
			} else if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				return err // a deadline passed; the stream is still intact
			} else {
				c.fail(err)
			}
		}
	}
	return c.rerr
}

// fail ends the reading side with err.
func (c *Conn) fail(err error) {
	c.rerr = err
	c.in.drop()
}

// Read reads decoded bytes. It returns io.EOF after the peer ended the stream, and
// io.ErrUnexpectedEOF if the stream was cut anywhere else.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	c.rmu.Lock()
	defer c.rmu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.plain) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.plain)
	c.plain = c.plain[n:]
	return n, nil
}

// WriteTo writes decoded bytes to w until the peer's end.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	c.rmu.Lock()
	defer c.rmu.Unlock()
	for {
		if len(c.plain) == 0 {
			if err := c.next(); err == io.EOF {
				return n, nil
			} else if err != nil {
				return n, err
			}
		}
		k, err := w.Write(c.plain)
		c.plain = c.plain[k:]
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
}

// Write encodes and sends p.
func (c *Conn) Write(p []byte) (n int, err error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	head, tail, most := c.seal.room()
	for n < len(p) {
		k := min(most, len(p)-n, wireFrame-head-tail)
		f := getFrame(c.mem, head+k+tail)
		copy(f.B[head:], p[n:n+k])
		err := c.send(f, head, k)
		f.put()
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// send seals one piece of plaintext and writes it.
func (c *Conn) send(f *frame, off, n int) error {
	if c.closed {
		return fault.New(fault.Closed, "write after the end of the stream: %w", net.ErrClosed)
	}
	if c.werr != nil {
		return c.werr
	}
	wire, err := c.seal.seal(f.B, off, n)
	if err == nil {
		if c.delay > 0 {
			time.Sleep(randomUpTo(c.delay))
		}
		_, err = c.raw.Write(wire)
	}
	c.seal.release()
	c.werr = err // a piece that was written in part cannot be sent again
	return err
}

// ReadFrom sends all bytes of r until its end. It does not end our stream;
// CloseWrite does.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	head, tail, most := c.seal.room()
	most = min(most, wireFrame-head-tail)
	var f *frame
	get := func() []byte {
		if f == nil {
			f = getFrame(c.mem, wireFrame)
		}
		return f.B[head : head+most]
	}
	rest := func() { f.put(); f = nil }
	defer func() { f.put() }()
	src := newSource(r)
	for {
		k, err := src.read(get, rest)
		if k > 0 {
			if err := c.sendFrame(f, head, k); err != nil {
				return n, err
			}
			n += int64(k)
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (c *Conn) sendFrame(f *frame, head, n int) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.send(f, head, n)
}

// CloseWrite ends the sending half: the peer's Read returns io.EOF. We can still
// read the peer's bytes.
func (c *Conn) CloseWrite() error {
	if err := c.Handshake(); err != nil {
		return err
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.closed || c.werr != nil {
		return c.werr
	}
	c.closed = true
	f := getFrame(c.mem, wireFrame)
	defer f.put()
	wire, err := c.seal.finish(f.B)
	if err == nil && len(wire) > 0 {
		_, err = c.raw.Write(wire)
	}
	c.seal.release()
	if err != nil {
		c.werr = err
		return err
	}
	if h, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// Close closes the connection. Bytes that were written are not lost, but a peer of
// Chive's protocol sees a cut stream unless the caller called CloseWrite first.
func (c *Conn) Close() error {
	err := c.raw.Close()
	if c.left != nil {
		c.left()
	}
	return err
}

// NetConn returns the underlying connection. Reading from it or writing to it
// breaks the stream.
func (c *Conn) NetConn() net.Conn { return c.raw }

// LocalAddr returns the local address of the underlying connection.
func (c *Conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr returns the remote address of the underlying connection.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline sets the deadline of the underlying connection. A Write that reaches
// a deadline ends the stream; a Read can continue after a deadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// SetReadDeadline sets the read deadline of the underlying connection.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.raw.SetReadDeadline(t) }

// SetWriteDeadline sets the write deadline of the underlying connection.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }
