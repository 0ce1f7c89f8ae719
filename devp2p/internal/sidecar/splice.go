package sidecar

import (
	"io"
	"net"
	"sync"
	"time"
)

// takeTime is how long an end may need to take a piece of what the other one sent.
const takeTime = time.Minute

// splice copies between two connections until both directions have ended, and closes
// both. RLPx has no half-closed connections, so the end of one direction ends the other.
func splice(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, d := range [2][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(movingWriter{d[0]}, d[1]) // both ends learn of it by the close
			a.Close()
			b.Close()
		})
	}
	wg.Wait()
}

// movingWriter writes to a connection that must take each piece in time. While a write
// waits, nobody sees that the other connection has ended: a node gives a peer up that reads
// nothing for 20 seconds.
type movingWriter struct{ c net.Conn }

func (w movingWriter) Write(p []byte) (int, error) {
	if err := w.c.SetWriteDeadline(time.Now().Add(takeTime)); err != nil {
		return 0, err
	}
	return w.c.Write(p)
}
