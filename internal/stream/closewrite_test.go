package stream_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestCloseWriteEndsWrite: a Write that waits ends when CloseWrite is called, also if the peer
// takes no HALF_CLOSE: nothing else may ever wake it.
func TestCloseWriteEndsWrite(t *testing.T) {
	for _, proto := range []string{halves, simnet.Protocols} {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.NewNetwork()
			r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("10.0.0.1:9001"), Proto: proto, Serve: func(*stream.Stream) {}})
			m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("10.0.0.9")))
			defer m.Close()
			s := dial(t, build(t, m, kinds["ntor windows"], r), "x")
			done := make(chan error, 1)
			go func() {
				_, err := s.Write(make([]byte, 1<<20))
				done <- err
			}()
			synctest.Wait()
			if err := s.CloseWrite(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			select {
			case err := <-done:
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			default:
				t.Error("it still waits")
			}
			s.Close()
		})
	}
}
