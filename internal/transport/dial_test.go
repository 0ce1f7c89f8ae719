package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

var (
	bridge  = netip.MustParseAddrPort("192.0.2.1:443")
	nowhere = slog.New(slog.DiscardHandler)
)

// clientFunc is a transport.
type clientFunc func(ctx context.Context, dial DialFunc, bridge netip.AddrPort, args map[string]string) (net.Conn, error)

func (f clientFunc) Dial(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	return f(ctx, dial, bridge, args)
}

// network is one that answers every dial by a pipe. far are the other ends.
type network struct{ far chan net.Conn }

func newNetwork() *network { return &network{make(chan net.Conn, 10)} }

func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	n.far <- b
	return a, nil
}

// gone checks that the node's end of a connection is closed.
func gone(t *testing.T, far net.Conn) {
	t.Helper()
	far.SetDeadline(time.Now().Add(time.Second))
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection below is open: %v", err)
	}
	far.Close()
}

// plain is a transport that disguises nothing.
var plain = clientFunc(func(ctx context.Context, dial DialFunc, bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	args["k"] = "changed"
	return dial(ctx, "tcp", bridge.String())
})

// TestDial: a connection works, has addresses that no other has and that the transport does not choose, and takes what is
// below with it when it is closed. After that, the transport reaches nothing.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var later DialFunc
		args := map[string]string{"k": "v"}
		keeps := clientFunc(func(ctx context.Context, dial DialFunc, bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
			if later = dial; bridge.String() != "192.0.2.1:443" || args["k"] != "v" {
				t.Errorf("%v %v", bridge, args)
			}
			return plain(ctx, dial, bridge, args)
		})
		ctx, cancel := context.WithCancel(t.Context())
		a, err := Dial(ctx, nowhere, keeps, n.dial, bridge, args)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // the dial is done, and the connection stays
		b, err := Dial(t.Context(), nowhere, plain, n.dial, bridge, args)
		if err != nil {
			t.Fatal(err)
		}
		if args["k"] != "v" {
			t.Error("the transport changes the arguments of the next connection")
		}
		if a.RemoteAddr().String() != bridge.String() || a.LocalAddr().String() == b.LocalAddr().String() {
			t.Errorf("%v %v %v", a.RemoteAddr(), a.LocalAddr(), b.LocalAddr())
		}
		far, farB := <-n.far, <-n.far
		go a.Write([]byte("x"))
		if got, err := io.ReadAll(io.LimitReader(far, 1)); err != nil || string(got) != "x" {
			t.Errorf("%q %v", got, err)
		}
		second, err := later(t.Context(), "tcp", bridge.String())
		if err != nil {
			t.Fatal(err)
		}
		second.Close()
		gone(t, <-n.far)
		third, err := later(t.Context(), "tcp", bridge.String())
		if err != nil {
			t.Fatal(err)
		}
		defer third.Close()
		a.Close()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after the end: %v", err)
		}
		synctest.Wait()
		gone(t, far)
		gone(t, <-n.far) // the third
		b.Close()
		synctest.Wait()
		gone(t, farB)
		if c, err := later(context.Background(), "tcp", bridge.String()); c != nil || !fault.Is(err, fault.Closed) {
			t.Errorf("a dial after the end: %v", err)
		}
	})
}

// TestDialFails: what a transport opened is closed when it fails, however it does.
func TestDialFails(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("192.0.2.7:1 says no")}
	for name, end := range map[string]func(net.Conn) (net.Conn, error){
		"an error":          func(net.Conn) (net.Conn, error) { return nil, refused },
		"both":              func(c net.Conn) (net.Conn, error) { return c, refused },
		"neither":           func(net.Conn) (net.Conn, error) { return nil, nil },
		"a strange panic":   func(net.Conn) (net.Conn, error) { panic(errors.New("192.0.2.7")) },
		"its connection is": func(c net.Conn) (net.Conn, error) { return nil, errors.Join(refused, c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if name == "a strange panic" {
					panicstest.Expect(t, 1)
				}
				n := newNetwork()
				c, err := Dial(t.Context(), nowhere, clientFunc(func(ctx context.Context, dial DialFunc, bridge netip.AddrPort, _ map[string]string) (net.Conn, error) {
					raw, err := dial(ctx, "tcp", bridge.String())
					if err != nil {
						return nil, err
					}
					return end(raw)
				}), n.dial, bridge, nil)
				if c != nil || err == nil {
					t.Fatalf("%v %v", c, err)
				}
				if msg := err.Error(); len(msg) > 200 || contains(msg, "192.0.2.7") {
					t.Errorf("the log gets %q", msg)
				}
				synctest.Wait()
				gone(t, <-n.far)
			})
		})
	}
}

// TestDialForEver: a transport that does not return holds nobody, and no connection. One that returns
// later gives nothing.
func TestDialForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		release := make(chan struct{})
		given := &slow{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, nowhere, clientFunc(func(_ context.Context, dial DialFunc, bridge netip.AddrPort, _ map[string]string) (net.Conn, error) {
			c, err := dial(context.Background(), "tcp", bridge.String())
			if err != nil {
				return nil, err
			}
			given.Conn = c
			<-release
			if c, err := dial(context.Background(), "tcp", bridge.String()); c != nil || err == nil {
				t.Errorf("a late dial: %v", err)
			}
			return given, nil
		}), n.dial, bridge, nil)
		if !fault.Is(err, fault.Timeout) || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		gone(t, <-n.far)
		close(release)
		synctest.Wait()
		if given.closed != 1 {
			t.Error("a late connection stays open")
		}
	})
}

// TestDialBelowEnds: a dial of a transport ends with the attempt, whatever context the transport gives it,
// and what it opens later is closed.
func TestDialBelowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended, release := make(chan error, 1), make(chan struct{})
		n := newNetwork()
		asks := clientFunc(func(_ context.Context, dial DialFunc, bridge netip.AddrPort, _ map[string]string) (net.Conn, error) {
			if _, err := dial(nil, "tcp", bridge.String()); err == nil { //nolint:staticcheck // a mistake of the transport's
				t.Error("a dial without a context")
			}
			c, err := dial(context.Background(), "tcp", bridge.String())
			if c != nil {
				t.Error("it has a connection")
			}
			return nil, err
		})
		go func() {
			_, err := Dial(ctx, nowhere, asks, func(ctx context.Context, network, addr string) (net.Conn, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				<-release
				return n.dial(ctx, network, addr) // it comes all the same
			}, bridge, nil)
			if !fault.Is(err, fault.Closed) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, errEnded) {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
		gone(t, <-n.far)
	})
}
