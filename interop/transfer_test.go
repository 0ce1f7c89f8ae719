package interop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/target"
)

// halfCloser is a stream that can end in one direction.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// contextDialer is a proxy's client, or a client inside the program.
type contextDialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// dial connects through the dialer, with the context's end as the connection's
// deadline.
func dial(ctx context.Context, d contextDialer, addr string) (halfCloser, error) {
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	return c.(halfCloser), nil
}

// download fetches n known bytes from the source and checks them.
func download(ctx context.Context, d contextDialer, addr string, n int64) error {
	c, err := dial(ctx, d, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		return err
	}
	h := sha256.New()
	got, err := io.Copy(h, c)
	if err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", got, n, err)
	}
	return same(h, got, n)
}

func same(h hash.Hash, got, n int64) error {
	if got != n || [32]byte(h.Sum(nil)) != target.Sum(n) {
		return fmt.Errorf("%d bytes, SHA-256 %x; want %d, %x", got, h.Sum(nil), n, target.Sum(n))
	}
	return nil
}

// upload sends n known bytes to the sink and checks what it says about them.
func upload(ctx context.Context, d contextDialer, addr string, n int64) error {
	c, err := dial(ctx, d, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		return err
	}
	if sent, err := io.Copy(c, target.Bytes(n)); err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", sent, n, err)
	}
	var answer [32]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return fmt.Errorf("the sink's answer: %w", err)
	}
	if answer != target.Sum(n) {
		return fmt.Errorf("the sink got SHA-256 %x; want %x", answer, target.Sum(n))
	}
	return nil
}

// echo sends a text and wants it back.
func echo(ctx context.Context, d contextDialer, addr, text string) error {
	c, err := dial(ctx, d, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return exchange(c, text, func() error { return nil })
}

// exchange sends the text, calls sent, and expects the text back.
func exchange(c net.Conn, text string, sent func() error) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	if err := sent(); err != nil {
		return err
	}
	b := make([]byte, len(text))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != text {
		return fmt.Errorf("sent %q, came back %q: %w", text, b[:n], errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}

// The number of bytes of one stream. windows is enough to fill and empty every
// window of a circuit many times; bulk is for one network of each program's
// relays.
const (
	bulk    = 100 << 20
	windows = 20 << 20
)

func testDownload(t *testing.T, p *proxy, size int64) {
	began := time.Now()
	if err := download(bounded(t, patience), p.dialer(), shared.target.Addr(target.Source), size); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB/s", float64(size)/1e6/time.Since(began).Seconds())
}

func testUpload(t *testing.T, p *proxy, size int64) {
	began := time.Now()
	if err := upload(bounded(t, patience), p.dialer(), shared.target.Addr(target.Sink), size); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB/s", float64(size)/1e6/time.Since(began).Seconds())
}

// testStreams opens 100 streams at the same time: down, up and echo in turn,
// each with its own size.
func testStreams(t *testing.T, p *proxy) {
	ctx := bounded(t, patience)
	errs := make(chan error)
	const streams = 100
	for i := range streams {
		go func() {
			n := int64(10_000 + 997*i)
			var err error
			switch i % 3 {
			case 0:
				err = download(ctx, p.dialer(), shared.target.Addr(target.Source), n)
			case 1:
				err = upload(ctx, p.dialer(), shared.target.Addr(target.Sink), n)
			case 2:
				err = echo(ctx, p.dialer(), shared.target.Addr(target.Echo), fmt.Sprint("stream ", i))
			}
			if err != nil {
				err = fmt.Errorf("stream %d: %w", i, err)
			}
			errs <- err
		}()
	}
	for range streams {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func testEcho(t *testing.T, p *proxy) {
	t.Helper()
	if err := echo(bounded(t, patience), p.dialer(), shared.target.Addr(target.Echo), "hello"); err != nil {
		t.Error(err)
	}
}

// testHalfClose ends the application's direction before the answer is there:
// the answer must come nevertheless. Tor's protocol has no half-closed streams
// (tor-spec, "Closing streams": END ends both directions), so the client must
// hold its END back.
func testHalfClose(t *testing.T, s subject, p *proxy) {
	if s.quirks().noHalfClose {
		t.Skip(s.name(), "ends a stream in both directions at once")
	}
	c, err := dial(bounded(t, patience), p.dialer(), shared.target.Addr(target.Echo))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := exchange(c, "half-closed", c.CloseWrite); err != nil {
		t.Error(err)
	}
}
