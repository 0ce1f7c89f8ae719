package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// What is between two ends in the table of links: each end is behind a link of half the
// delay, one way.
const (
	linkDelay = 25 * time.Millisecond
	linkRate  = 10e6 / 8 // bytes per second, each way
)

// maxQueued is how long bytes may wait in front of the link: as a router's queue, and
// without loss.
const maxQueued = 100 * time.Millisecond

// A line is a link as TCP sees it that loses nothing: an HTTP proxy that knows CONNECT,
// and through which bytes go with a delay and at a rate, which all connections share.
// Packets are not emulated: the kernels of both sides acknowledge at once, and nothing is
// lost. What counts here is that a round trip takes its time, and that a link is slow.
type line struct {
	delay    time.Duration
	ln       net.Listener
	up, down *lane
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// lane is one direction.
type lane struct {
	rate float64 // bytes per second

	mu   sync.Mutex
	busy time.Time // guarded by mu: until then, it sends what came before
}

// openLine opens a line.
func openLine(delay time.Duration, rate float64) (*line, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &line{delay: delay, ln: ln, up: &lane{rate: rate}, down: &lane{rate: rate}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.serve)
	return l, nil
}

func (l *line) addr() string { return l.ln.Addr().String() }

// Close ends all connections.
func (l *line) Close() error {
	l.cancel()
	err := l.ln.Close()
	l.wg.Wait()
	return err
}

func (l *line) serve() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			return // closed
		}
		l.wg.Go(func() { l.take(c) })
	}
}

// take serves one connection: the proxy's answer comes after a round trip, as TCP's would.
func (l *line) take(c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(l.ctx, func() { c.Close() })
	defer stop()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return // who asks sees a connection that ended
	}
	if req.Method != http.MethodConnect {
		io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	to, err := new(net.Dialer).DialContext(l.ctx, "tcp", req.Host)
	if err != nil {
		io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer to.Close()
	stopTo := context.AfterFunc(l.ctx, func() { to.Close() })
	defer stopTo()
	if wait(l.ctx, 2*l.delay) != nil {
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(to, r, l.up); closeWrite(to) })
	both.Go(func() { l.copy(c, to, l.down); closeWrite(c) })
	both.Wait()
}

func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite() // it has ended if this fails
	}
}

// A batch is bytes on their way.
type batch struct {
	data []byte
	at   time.Time // when the last of them arrives
}

// copy carries bytes through one lane until the source or the sink ends.
func (l *line) copy(to io.Writer, from io.Reader, through *lane) {
	way := make(chan batch, 1024) // more than fit into rate and delay
	var sink sync.WaitGroup
	gone := make(chan struct{})
	sink.Go(func() {
		defer close(gone)
		for b := range way {
			if wait(l.ctx, time.Until(b.at)) != nil {
				return
			}
			if _, err := to.Write(b.data); err != nil {
				return
			}
		}
	})
	for {
		data := make([]byte, 1448)
		n, err := from.Read(data)
		if n > 0 {
			sent := through.send(time.Now(), n)
			if wait(l.ctx, time.Until(sent)-maxQueued) != nil {
				break
			}
			select {
			case way <- batch{data[:n], sent.Add(l.delay)}:
			case <-gone:
				err = io.ErrClosedPipe
			}
		}
		if err != nil {
			break
		}
	}
	close(way)
	sink.Wait()
}

// send returns when the last of n bytes has left that come now.
func (l *lane) send(now time.Time, n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy.Before(now) {
		l.busy = now
	}
	l.busy = l.busy.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	return l.busy
}

// dial connects through the line.
func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, l.addr())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := ask(c, addr); err != nil {
		c.Close()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return c, nil
}

// ask asks a proxy for a connection. Nothing follows the answer until this side has
// spoken, so the reader keeps nothing back.
func ask(c net.Conn, to string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the line answers %s", res.Status)
	}
	return nil
}
