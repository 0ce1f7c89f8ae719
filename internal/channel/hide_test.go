package channel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestErrorsHideAddresses: the errors of a connection reach logs and the status, and name
// neither end of it.
func TestErrorsHideAddresses(t *testing.T) {
	reset := func(c net.Conn) {
		if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	k := keys(t)
	ctx := func(after time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		t.Cleanup(cancel)
		return ctx
	}
	connect := func(ctx context.Context, c net.Conn) error {
		_, err := Connect(ctx, c, k.ID, netip.MustParseAddrPort("192.0.2.1:9001"), &LinkConfig{})
		return err
	}
	for name, c := range map[string]struct {
		run  func(dialled, accepted net.Conn) error
		kind fault.Kind
	}{
		"silent peer": {func(a, _ net.Conn) error {
			err := connect(ctx(50*time.Millisecond), a)
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return err
		}, fault.Timeout},
		"reset in the handshake": {func(a, b net.Conn) error {
			reset(b)
			return connect(ctx(time.Minute), a)
		}, fault.Network},
		"reset of a channel": {func(a, b net.Conn) error {
			l, _, lErr, rErr := shake(t, a, b, k.ID, &LinkConfig{}, &LinkConfig{Identity: k})
			if lErr != nil || rErr != nil {
				t.Fatal(lErr, rErr)
			}
			ch := Start(l, &Config{Log: slog.New(slog.DiscardHandler), Now: time.Now})
			reset(b)
			<-ch.Done()
			return ch.Err()
		}, fault.Network},
		"closed connection": {func(a, b net.Conn) error {
			l, _, lErr, rErr := shake(t, a, b, k.ID, &LinkConfig{}, &LinkConfig{Identity: k})
			if lErr != nil || rErr != nil {
				t.Fatal(lErr, rErr)
			}
			ch := Start(l, &Config{Log: slog.New(slog.DiscardHandler), Now: time.Now})
			a.Close()
			<-ch.Done()
			return ch.Err()
		}, fault.Network},
	} {
		a, b := tcpPair(t)
		err := c.run(a, b)
		if !fault.Is(err, c.kind) {
			t.Errorf("%s: %v (%v)", name, err, fault.KindOf(err))
		}
		if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
