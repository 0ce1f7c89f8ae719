package appearance

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// Marks of the script, in their order.
const (
	markStart   = "start"
	markUp      = "up"      // connected: the idle time begins
	markUse     = "use"     // the idle time is over
	markClosed  = "closed"  // a program has closed its connection; several
	markOnion   = "onion"   // an onion service is asked for
	markNewnym  = "newnym"  // the controller asks for new circuits
	markAfter   = "after"   // and what comes of it is over
	markTerm    = "term"    // SIGTERM
	markGone    = "gone"    // the process has ended
	markRestart = "restart" // it starts again, with its state
	markAgain   = "again"   // it is connected again
	markEnd     = "end"     // SIGTERM once more
	markVisit   = "visit"   // somebody visits the onion service; several
)

// Times of the script.
const (
	pauseBetween = 1200 * time.Millisecond // between two connections
	afterNewnym  = 8 * time.Second
	afterRestart = 10 * time.Second
	upload       = 400_000
	download     = 200_000
)

// settle starts the program, and waits until it is connected and has been idle.
func (c *client) settle(ctx context.Context, nw *network, idle time.Duration) (*ctor.Control, error) {
	// C tor does much at the begin of a second of its own: clients start anywhere in one.
	if err := pause(ctx, rand.N(time.Second)); err != nil {
		return nil, err
	}
	c.mark(markStart)
	ctl, err := c.start(ctx, nw)
	if err != nil {
		return nil, err
	}
	c.mark(markUp)
	if err := pause(ctx, idle); err != nil {
		return nil, err
	}
	c.mark(markUse)
	return ctl, nil
}

// run does the whole script.
// It says in alive whether TCP's keep-alive was on.
func (c *client) run(ctx context.Context, nw *network, idle time.Duration, alive *bool) error {
	ctl, err := c.settle(ctx, nw, idle)
	if err != nil {
		return err
	}
	if *alive, err = nw.rec.keepsAlive(c); err != nil {
		return err
	}
	use := c.use
	if c.role == asService {
		use = c.visited
	}
	if err := use(ctx, nw); err != nil {
		return err
	}
	if err := c.newnym(ctx, nw, ctl); err != nil {
		return err
	}
	if err := ctl.Close(); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return c.again(ctx, nw)
}

// use is what a program does with the SOCKS port.
func (c *client) use(ctx context.Context, nw *network) error {
	for range 5 {
		if err := c.ping(ctx, nw); err != nil {
			return fault.New(fault.KindOf(err), "%s: a ping: %w", c.subject.Name, err)
		}
		if err := pause(ctx, pauseBetween); err != nil {
			return err
		}
	}
	if _, err := (socksclient.Dialer{Proxy: c.socks}).Resolve(ctx, target.Name4); err != nil {
		return fault.New(fault.KindOf(err), "%s: a lookup: %w", c.subject.Name, err)
	}
	if err := c.bulk(ctx, nw); err != nil {
		return fault.New(fault.KindOf(err), "%s: a transfer: %w", c.subject.Name, err)
	}
	c.mark(markOnion)
	if err := get(ctx, c.socks, nw.onion+":80", "/bytes/20000", 20_000); err != nil {
		return fault.New(fault.KindOf(err), "%s: the onion service: %w", c.subject.Name, err)
	}
	return pause(ctx, pauseBetween)
}

// ping sends 300 bytes and then 517, and reads them back.
func (c *client) ping(ctx context.Context, nw *network) error {
	conn, err := socksclient.Dialer{Proxy: c.socks}.DialContext(ctx, "tcp", nw.target.NameAddr(target.Echo, target.Name4))
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, n := range []int{300, 517} {
		b := make([]byte, n)
		if _, err := conn.Write(b); err != nil {
			return fault.Wrap(fault.Network, err)
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return fault.Wrap(fault.Network, err)
		}
	}
	c.mark(markClosed)
	return nil
}

// bulk uploads and downloads.
func (c *client) bulk(ctx context.Context, nw *network) error {
	conn, err := socksclient.Dialer{Proxy: c.socks}.DialContext(ctx, "tcp", nw.target.NameAddr(target.Sink, target.Name4))
	if err != nil {
		return err
	}
	defer conn.Close()
	b := make([]byte, 8+upload)
	binary.BigEndian.PutUint64(b, upload)
	if _, err := conn.Write(b); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	if _, err := io.ReadFull(conn, b[:32]); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	return get(ctx, c.socks, nw.target.NameAddr(target.Web, target.Name4), fmt.Sprintf("/bytes/%d", download), download)
}

// get fetches a path by a SOCKS port, and checks how long the answer is.
func get(ctx context.Context, socks, addr, path string, want int64) error {
	conn, err := socksclient.Dialer{Proxy: socks}.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n", path); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && n != want {
		err = io.ErrUnexpectedEOF
	}
	return fault.Wrap(fault.Network, err)
}

// newnym asks for new circuits, and uses one.
func (c *client) newnym(ctx context.Context, nw *network, ctl *ctor.Control) error {
	c.mark(markNewnym)
	if err := ctl.Signal(ctx, "NEWNYM"); err != nil {
		return err
	}
	if err := pause(ctx, afterNewnym); err != nil {
		return err
	}
	c.mark(markAfter)
	return c.ping(ctx, nw)
}

// again ends the program, starts it with its state, and ends it.
func (c *client) again(ctx context.Context, nw *network) error {
	c.mark(markTerm)
	if err := c.proc.Stop(); err != nil {
		return err
	}
	c.mark(markGone)
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	c.mark(markRestart)
	ctl, err := c.start(ctx, nw)
	if err != nil {
		return err
	}
	defer ctl.Close()
	c.mark(markAgain)
	if err := pause(ctx, afterRestart); err != nil {
		return err
	}
	c.mark(markEnd)
	return c.proc.Stop()
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "the script: %w", context.Cause(ctx))
	}
}
