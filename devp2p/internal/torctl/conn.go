// Package torctl is a client of a Tor daemon's control port (control-spec): enough of
// it to host an onion service.
package torctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Bounds of what a daemon may send.
const (
	maxLine  = 64 << 10
	maxLines = 4096 // of one reply
	maxQueue = 256  // events that nobody has taken: more of them end the connection
)

// Error is a reply that is not a success.
type Error struct {
	Code int    // 500 to 599
	Text string // the daemon's words
}

// Error returns the reply.
func (e *Error) Error() string { return fmt.Sprintf("control port: %d %s", e.Code, e.Text) }

// Conn is a connection to a control port. Its methods may be called from any goroutine;
// commands are sent one after the other.
type Conn struct {
	conn    net.Conn
	replies chan reply
	events  chan string
	done    chan struct{}
	quit    chan struct{} // closed by Close
	closing sync.Once

	cmd sync.Mutex // held for one command
	err error      // why the reader ended; written before done is closed
}

type reply struct {
	code  int
	lines []string
}

// Dial connects to a control port, "IP:PORT" or "unix:PATH", and authenticates. It looks
// no name up.
func Dial(ctx context.Context, addr string, auth Auth) (*Conn, error) {
	network, addr := Split(addr)
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("control port: %w", err)
	}
	c := newConn(raw)
	if err := c.authenticate(ctx, auth); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Split returns the network of a control port's address, and the rest.
func Split(addr string) (network, rest string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

func newConn(raw net.Conn) *Conn {
	c := &Conn{conn: raw, replies: make(chan reply), events: make(chan string, maxQueue), done: make(chan struct{}), quit: make(chan struct{})}
	go c.read()
	return c
}

// Close ends the connection, and waits until its goroutine has ended.
func (c *Conn) Close() error {
	c.closing.Do(func() { close(c.quit) })
	err := c.conn.Close()
	<-c.done
	return err
}

// Done is closed when the connection has ended; Err says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended; it may be called after Done is closed.
func (c *Conn) Err() error { return c.err }

// Events returns the first lines of events, without their code. It is closed when the
// connection has ended.
func (c *Conn) Events() <-chan string { return c.events }

// Command sends a line, and returns the lines of the reply, without codes. A reply that is
// no success is an *Error.
func (c *Conn) Command(ctx context.Context, line string) ([]string, error) {
	if strings.ContainsAny(line, "\r\n\x00") {
		return nil, errors.New("control port: a command with a line break")
	}
	c.cmd.Lock()
	defer c.cmd.Unlock()
	// A reply that comes after the context's end would answer the next command: so the
	// connection ends, too.
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c.conn, line+"\r\n"); err != nil {
		return nil, c.failure(ctx, err)
	}
	select {
	case r := <-c.replies:
		if r.code < 200 || r.code > 299 {
			return nil, &Error{r.code, strings.Join(r.lines, "; ")}
		}
		return r.lines, nil
	case <-c.done:
		return nil, c.failure(ctx, c.err)
	}
}

func (c *Conn) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("control port: %w", context.Cause(ctx))
	}
	return fmt.Errorf("control port: %w", err)
}

// read takes replies and events until the connection ends.
func (c *Conn) read() {
	c.err = c.readAll()
	c.conn.Close()
	close(c.events)
	close(c.done)
}

func (c *Conn) readAll() error {
	r := bufio.NewReaderSize(c.conn, maxLine)
	for {
		code, lines, err := readReply(r)
		if err != nil {
			return err
		}
		if code >= 600 {
			select {
			case c.events <- lines[0]:
				continue
			default:
				return errors.New("too many events")
			}
		}
		select {
		case c.replies <- reply{code, lines}:
		case <-c.quit:
			return net.ErrClosed
		case <-time.After(time.Minute):
			return errors.New("a reply that nobody asked for")
		}
	}
}

// readReply reads one reply: its code, and its lines. Lines of data follow the line that
// they belong to.
func readReply(r *bufio.Reader) (code int, lines []string, err error) {
	for {
		line, err := readLine(r)
		if err != nil {
			return 0, nil, err
		}
		if len(line) < 4 || line[0] < '2' || line[0] > '6' || !digit(line[1]) || !digit(line[2]) {
			return 0, nil, errors.New("a line without a code")
		}
		n := int(line[0]-'0')*100 + int(line[1]-'0')*10 + int(line[2]-'0')
		if len(lines) > 0 && n != code {
			return 0, nil, errors.New("a reply with two codes")
		}
		code = n
		if lines = append(lines, line[4:]); len(lines) > maxLines {
			return 0, nil, errors.New("a reply with too many lines")
		}
		switch line[3] {
		case ' ':
			return code, lines, nil
		case '-':
		case '+':
			for {
				data, err := readLine(r)
				if err != nil {
					return 0, nil, err
				}
				if data == "." {
					break
				}
				if lines = append(lines, strings.TrimPrefix(data, ".")); len(lines) > maxLines {
					return 0, nil, errors.New("a reply with too many lines")
				}
			}
		default:
			return 0, nil, errors.New("a line without a separator after its code")
		}
	}
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errors.New("a line that is too long")
	}
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
