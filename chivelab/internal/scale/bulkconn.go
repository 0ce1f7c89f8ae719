package scale

import (
	"net"
	"sync"
)

// gathered is how many bytes the load gives to the kernel at once: four records.
const gathered = 64 << 10

// bulkConn is a connection below TLS that makes few and large calls of the kernel, so that these take little of the load's own
// time. Until gather, it writes at once.
type bulkConn struct {
	net.Conn

	in   []byte // owned by the reader
	r, w int    // in[r:w] is unread

	mu     sync.Mutex // guards what follows
	gather bool
	out    []byte
}

func newBulkConn(c net.Conn) *bulkConn { return &bulkConn{Conn: c, in: make([]byte, gathered)} }

// Read implements net.Conn.
func (c *bulkConn) Read(p []byte) (int, error) {
	if c.r == c.w {
		n, err := c.Conn.Read(c.in)
		c.r, c.w = 0, n
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in[c.r:c.w])
	c.r += n
	return n, nil
}

// Write implements net.Conn.
func (c *bulkConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gather {
		return c.Conn.Write(p)
	}
	c.out = append(c.out, p...)
	return len(p), nil
}

// startGathering keeps what is written from now on until flush.
func (c *bulkConn) startGathering() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gather = true
	c.out = make([]byte, 0, gathered+gathered/4)
}

// flush writes what was kept.
func (c *bulkConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.out)
	c.out = c.out[:0]
	return err
}
