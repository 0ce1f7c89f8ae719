package ftebench

import (
	"net"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
)

// counter forwards connections and counts their bytes.
type counter struct {
	l        net.Listener
	up, down atomic.Int64
}

func newCounter(to string) (*counter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Network, "listening: %w", err)
	}
	k := &counter{l: l}
	pass := func(dst, src net.Conn, n *atomic.Int64) {
		defer dst.Close()
		defer src.Close()
		buf := make([]byte, chunk)
		for {
			m, err := src.Read(buf)
			n.Add(int64(m))
			if _, werr := dst.Write(buf[:m]); err != nil || werr != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go pass(s, c, &k.up)
			go pass(c, s, &k.down)
		}
	}()
	return k, nil
}

func (k *counter) addr() string { return k.l.Addr().String() }
func (k *counter) close()       { k.l.Close() }
