package ctor

import (
	"bufio"
	"context"
	"encoding/hex"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Bounds of the control protocol's client: no honest reply comes near them.
const (
	maxControlLine  = 1 << 20
	maxControlReply = 64 << 20
	maxQueuedEvents = 1 << 14
)

// Control is a connection to one tor's control port (control-spec). Several
// goroutines may use it; commands are sent one after the other.
type Control struct {
	conn    net.Conn
	replies chan []string // one whole reply each: the lines with their codes
	done    chan struct{} // closed by the reader when the connection ends

	cmd sync.Mutex // held from a command's first byte to its reply's last

	mu     sync.Mutex
	events chan Event // guarded by mu: nil until Events; closed by the reader
	err    error      // guarded by mu: why the reader ended
}

// Event is one asynchronous reply: its type, such as "CIRC", and the text after
// it. Data holds the lines of a multi-line event after the first.
type Event struct {
	Type string
	Rest string
	Data []string
	At   time.Time // when it was read
}

// DialControl connects to the control port at addr and authenticates with the
// cookie in the file.
func DialControl(ctx context.Context, addr, cookieFile string) (*Control, error) {
	cookie, err := os.ReadFile(cookieFile)
	if err != nil {
		return nil, fault.New(fault.Local, "control cookie: %w", err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.New(fault.Network, "control port: %w", err)
	}
	c := &Control{conn: conn, replies: make(chan []string), done: make(chan struct{})}
	go c.read()
	if _, err := c.Command(ctx, "AUTHENTICATE "+hex.EncodeToString(cookie)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection; the channel of Events is closed.
func (c *Control) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

// Command sends one line and returns the reply's lines without their codes. A
// reply other than 2xx is an error.
func (c *Control) Command(ctx context.Context, line string) ([]string, error) {
	if strings.ContainsAny(line, "\r\n") {
		return nil, fault.New(fault.Config, "control command with a line break: %q", line)
	}
	c.cmd.Lock()
	defer c.cmd.Unlock()
	if _, err := c.conn.Write([]byte(line + "\r\n")); err != nil {
		return nil, fault.New(fault.Network, "control port: %w", err)
	}
	verb, _, _ := strings.Cut(line, " ")
	select {
	case reply := <-c.replies:
		last := reply[len(reply)-1]
		if last[0] != '2' {
			return nil, fault.New(fault.Refused, "control command %s: %s", verb, last)
		}
		out := make([]string, len(reply))
		for i, l := range reply {
			out[i] = l[4:]
		}
		return out, nil
	case <-c.done:
		return nil, c.cause()
	case <-ctx.Done():
		// The reply may still come, and no command would wait for it, so close the
		// connection.
		c.conn.Close()
		return nil, fault.New(fault.Timeout, "control command %s: %w", verb, context.Cause(ctx))
	}
}

// GetInfo returns the value of one GETINFO key.
func (c *Control) GetInfo(ctx context.Context, key string) (string, error) {
	lines, err := c.Command(ctx, "GETINFO "+key)
	if err != nil {
		return "", err
	}
	v, ok := strings.CutPrefix(lines[0], key+"=")
	if !ok {
		return "", fault.New(fault.Protocol, "control port answered GETINFO %s with %q", key, lines[0])
	}
	return strings.TrimPrefix(v, "\n"), nil
}

// SetConf sets options, each given as "Key=Value" (or "Key" for its default).
func (c *Control) SetConf(ctx context.Context, settings ...string) error {
	var b strings.Builder
	b.WriteString("SETCONF")
	for _, s := range settings {
		k, v, has := strings.Cut(s, "=")
		b.WriteString(" " + k)
		if has {
			b.WriteString(`="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`)
		}
	}
	_, err := c.Command(ctx, b.String())
	return err
}

// Signal sends a control-port signal, such as "NEWNYM" or "RELOAD".
func (c *Control) Signal(ctx context.Context, name string) error {
	_, err := c.Command(ctx, "SIGNAL "+name)
	return err
}

// Events subscribes to the named events, instead of any earlier subscription. The
// channel is closed when the connection ends. The connection also ends if the
// subscriber is 16,384 events behind.
func (c *Control) Events(ctx context.Context, names ...string) (<-chan Event, error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	if c.events == nil {
		c.events = make(chan Event, maxQueuedEvents)
	}
	ch := c.events
	c.mu.Unlock()
	_, err := c.Command(ctx, "SETEVENTS "+strings.Join(names, " "))
	return ch, err
}

func (c *Control) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// read is the connection's only reader; it ends when the connection does.
func (c *Control) read() {
	err := c.readReplies()
	c.conn.Close()
	c.mu.Lock()
	c.err = fault.New(fault.Network, "control port: %w", err)
	if c.events != nil {
		close(c.events)
	}
	c.mu.Unlock()
	close(c.done)
}

func (c *Control) readReplies() error {
	r := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		reply, err := readReply(r)
		if err != nil {
			return err
		}
		if strings.HasPrefix(reply[0], "650") {
			if err := c.deliver(reply); err != nil {
				return err
			}
			continue
		}
		// If the command was given up, no goroutine waits; conn is closed then,
		// and the timer ends this goroutine.
		select {
		case c.replies <- reply:
		case <-time.After(30 * time.Second):
			return fault.New(fault.Protocol, "a reply that no command waits for: %.80q", reply[0])
		}
	}
}

func (c *Control) deliver(reply []string) error {
	typ, rest, _ := strings.Cut(reply[0][4:], " ")
	ev := Event{Type: typ, Rest: rest, At: time.Now()}
	for _, l := range reply[1:] {
		ev.Data = append(ev.Data, l[4:])
	}
	c.mu.Lock()
	ch := c.events
	c.mu.Unlock()
	select {
	case ch <- ev:
		return nil
	default:
		return fault.New(fault.Resource, "%d events were not read", maxQueuedEvents)
	}
}

// readReply reads the lines of one reply (control-spec, "messages from the
// server"). The data of a "+" line follows it after a line break.
func readReply(r *bufio.Reader) ([]string, error) {
	var reply []string
	size := 0
	for {
		line, err := readLine(r)
		if err != nil {
			return nil, err
		}
		if len(line) < 4 {
			return nil, fault.New(fault.Protocol, "control reply line %q", line)
		}
		if line[3] == '+' {
			var data strings.Builder
			data.WriteString(line)
			for {
				l, err := readLine(r)
				if err != nil {
					return nil, err
				}
				if l == "." {
					break
				}
				if size += len(l) + 1; size > maxControlReply {
					return nil, fault.New(fault.Resource, "control reply longer than %d bytes", maxControlReply)
				}
				data.WriteString("\n" + strings.TrimPrefix(l, "."))
			}
			line = data.String()
		}
		if size += len(line); size > maxControlReply {
			return nil, fault.New(fault.Resource, "control reply longer than %d bytes", maxControlReply)
		}
		reply = append(reply, line)
		switch line[3] {
		case ' ':
			return reply, nil
		case '-', '+':
		default:
			return nil, fault.New(fault.Protocol, "control reply line %.80q", line)
		}
	}
}

func readLine(r *bufio.Reader) (string, error) {
	var b []byte
	for {
		part, err := r.ReadSlice('\n')
		b = append(b, part...)
		if len(b) > maxControlLine {
			return "", fault.New(fault.Resource, "control line longer than %d bytes", maxControlLine)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
}
