package stream_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/simnet"
)

// goneTarget is the connection to a target that has answered and closed: it takes nothing
// more, and its answer can be read once answers is closed.
type goneTarget struct {
	net.Conn
	answers, closed chan struct{}
	answer          *bytes.Reader
	once            sync.Once
}

func (g *goneTarget) Read(p []byte) (int, error) {
	select {
	case <-g.answers:
		return g.answer.Read(p)
	case <-g.closed:
		return 0, net.ErrClosed
	}
}

func (g *goneTarget) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func (g *goneTarget) CloseWrite() error {
	return &net.OpError{Op: "close", Err: os.NewSyscallError("shutdown", syscall.ENOTCONN)}
}

func (g *goneTarget) Close() error                   { g.once.Do(func() { close(g.closed) }); return nil }
func (*goneTarget) SetDeadline(time.Time) error      { return nil }
func (*goneTarget) SetReadDeadline(time.Time) error  { return nil }
func (*goneTarget) SetWriteDeadline(time.Time) error { return nil }

// TestAnswerOfATargetThatIsGone: what a target sent before it closed reaches the client
// whole, also if the client goes on sending, or ends its own data, before it has read all.
func TestAnswerOfATargetThatIsGone(t *testing.T) {
	for _, o := range []struct {
		name string
		half bool
		size int
		ends bool // the client half-closes
	}{
		{"a client that sends", false, 1 << 20, false},
		{"a client that sends and takes HALF_CLOSE", true, 1 << 20, false},
		{"a client that has sent all", true, 0, true},
		{"a client that sends, and has sent all then", true, 1 << 20, true},
	} {
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTargets(t)
				h.half = o.half
				n := simnet.NewNetwork()
				r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("10.0.0.1:9001"), Proto: halves, Streams: h})
				m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("10.0.0.9")))
				defer m.Close()
				c := build(t, m, kinds["vegas cgo"], r)
				answer := bytes.Repeat([]byte("answer"), 200_000)
				g := &goneTarget{answers: make(chan struct{}), closed: make(chan struct{}), answer: bytes.NewReader(answer)}
				h.conns <- g
				s := dial(t, c, "x")
				if k, err := s.Write(make([]byte, o.size)); k != o.size || err != nil {
					t.Fatal(k, err)
				}
				if o.ends {
					if err := s.CloseWrite(); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				close(g.answers)
				if b, err := io.ReadAll(s); !bytes.Equal(b, answer) || err != nil {
					t.Errorf("%d bytes of %d, %v", len(b), len(answer), err)
				}
				s.Close()
				<-h.done
				<-g.closed
			})
		})
	}
}
