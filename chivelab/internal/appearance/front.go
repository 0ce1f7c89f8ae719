package appearance

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// front stands before a relay's port, passes on what comes, and records what a wire shows.
type front struct {
	r      *recorder
	relay  int
	lns    []net.Listener
	behind string        // the relay's own port
	raw    bool          // what passes is no TLS; set before clients come
	delay  time.Duration // of what clients send and get, one way
	wg     sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

func newFront(r *recorder, relay int, at, behind string, delay time.Duration) (*front, error) {
	f := &front{r: r, relay: relay, behind: behind, delay: delay, open: map[net.Conn]struct{}{}}
	_, err := f.also(at)
	return f, err
}

// also listens at another address.
func (f *front) also(at string) (netip.AddrPort, error) {
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return netip.AddrPort{}, fault.New(fault.Local, "a recorder's port: %w", err)
	}
	f.lns = append(f.lns, ln)
	f.wg.Go(func() { f.serve(ln) })
	return netaddr.OfPort(ln.Addr()), nil
}

func (f *front) addr() netip.AddrPort { return netaddr.OfPort(f.lns[0].Addr()) }

// alsoAddr returns the further port, if there is one.
func (f *front) alsoAddr() (at netip.AddrPort, ok bool) {
	if len(f.lns) < 2 {
		return at, false
	}
	return netaddr.OfPort(f.lns[1].Addr()), true
}

// close ends the recorder and its connections, and waits.
func (f *front) close() {
	f.mu.Lock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
	f.mu.Unlock()
	for _, ln := range f.lns {
		ln.Close()
	}
	f.wg.Wait()
}

// keep makes close end a connection; false: it is too late.
func (f *front) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		c.Close()
		return false
	}
	f.open[c] = struct{}{}
	return true
}

func (f *front) drop(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
	c.Close()
}

func (f *front) serve(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return // closed
		}
		if f.keep(c) {
			f.wg.Go(func() { f.pass(c.(*net.TCPConn)) })
		}
	}
}

// pass connects to the relay and passes bytes on in both directions.
func (f *front) pass(c *net.TCPConn) {
	defer f.drop(c)
	k := &conn{port: netaddr.OfPort(c.RemoteAddr()), to: netaddr.OfPort(c.LocalAddr()), relay: f.relay, opened: time.Now()}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	behind, err := d.DialContext(context.Background(), "tcp4", f.behind)
	if err != nil {
		return // the relay is not there yet, or no more
	}
	if !f.keep(behind) {
		return
	}
	defer f.drop(behind)
	if k.client = f.r.owner(k.port, k.to); k.client != nil {
		at := hop{netaddr.OfPort(behind.LocalAddr()), netaddr.OfPort(behind.RemoteAddr())}
		f.r.mu.Lock()
		f.r.conns = append(f.r.conns, k)
		f.r.from[at] = k
		f.r.mu.Unlock()
		defer func() { // the kernel gives the port to another connection
			f.r.mu.Lock()
			delete(f.r.from, at)
			f.r.mu.Unlock()
		}()
	}
	var delay time.Duration
	if k.client != nil {
		delay = f.delay
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		relayBytes(later(c, delay), behind, nil)
		c.CloseWrite()
	})
	w := &records{r: f.r, k: k}
	see := w.feed
	if f.raw {
		see = w.note
	}
	err = relayBytes(later(behind, delay), c, see)
	f.r.mu.Lock()
	if k.ended, k.how = time.Now(), "FIN"; err != nil {
		k.how = "RST"
	}
	f.r.mu.Unlock()
	behind.(*net.TCPConn).CloseWrite()
	wg.Wait()
}

// relayBytes copies until the end of src. The error is nil if src ended in order.
func relayBytes(dst io.WriteCloser, src net.Conn, see func([]byte)) error {
	defer dst.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if see != nil {
			see(buf[:n])
		}
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return nil // the other end is gone first
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, syscall.ECONNRESET):
			return err
		default:
			return nil
		}
	}
}

// records finds the TLS records of a client.
type records struct {
	r    *recorder
	k    *conn
	rest []byte
}

const (
	recordHeader     = 5
	recordHandshake  = 22
	recordOfData     = 23
	mostOfTLSRecords = 1<<14 + 256
)

// note takes each piece as it comes for a record.
func (w *records) note(b []byte) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if len(b) > 0 {
		w.k.records = append(w.k.records, record{time.Now(), len(b)})
	}
}

func (w *records) feed(b []byte) {
	now := time.Now()
	w.rest = append(w.rest, b...)
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	for len(w.rest) >= recordHeader {
		n := int(binary.BigEndian.Uint16(w.rest[3:]))
		if n > mostOfTLSRecords {
			w.rest = nil // no TLS: the relay refuses it
			return
		}
		if len(w.rest) < recordHeader+n {
			return
		}
		body := w.rest[recordHeader : recordHeader+n]
		switch {
		case w.rest[0] == recordHandshake && w.k.hello == nil:
			w.k.hello = append([]byte{}, body...)
		case w.rest[0] == recordOfData:
			w.k.records = append(w.k.records, record{now, n})
		}
		w.rest = append(w.rest[:0], w.rest[recordHeader+n:]...)
	}
}
