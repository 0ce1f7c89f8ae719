package lab_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestRefusedOnionStream: a service refuses a stream with a reason, before it is open or after, and its
// client reads that reason. A stream that is taken is open with the first Read or Write.
func TestRefusedOnionStream(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 3, Exits: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := chive.OnionConfig{Ports: []int{7}, DeferConnected: true}
	l, err := nw.Client.Listen(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		net.Conn
		err error
	}
	dial := func() (*chive.OnionConn, chan outcome) {
		t.Helper()
		out := make(chan outcome, 1)
		go func() {
			c, err := nw.Client.DialContext(ctx, "tcp", l.Address()+":7")
			out <- outcome{c, err}
		}()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c.(*chive.OnionConn), out
	}
	for _, reason := range []chive.EndReason{chive.EndResourceLimit, chive.EndConnectRefused, chive.EndMisc, chive.EndExitPolicy, chive.EndDone, 99} {
		c, out := dial()
		select {
		case o := <-out:
			t.Fatalf("the client was told before: %v", o.err)
		default:
		}
		if err := c.Refuse(reason); err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write to what was refused: %v", err)
		}
		o := <-out
		if got, ok := chive.EndReasonOf(o.err); !ok || got != reason || !errors.Is(o.err, reason) || errors.Is(o.err, chive.EndReason(13)) {
			t.Errorf("refused with %v, the client reads %v", reason, o.err)
		}
		if err := errors.Join(c.Refuse(reason), c.Close()); err != nil {
			t.Error("a second time:", err)
		}
	}
	c, out := dial()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if o := <-out; !errors.Is(o.err, chive.EndDone) {
		t.Errorf("closed unheard, the client reads %v", o.err)
	}
	if got := l.Status().Streams; got != 0 {
		t.Errorf("%d streams are counted", got)
	}
	if c, out = dial(); c.Refuse(0) == nil {
		t.Error("0 is a reason")
	}
	if _, err := io.WriteString(c, "hello"); err != nil { // it is open now
		t.Fatal(err)
	}
	o := <-out
	if o.err != nil {
		t.Fatal(o.err)
	}
	defer o.Close()
	if err := c.Refuse(chive.EndResourceLimit); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(o); string(b) != "hello" || !errors.Is(err, chive.EndResourceLimit) || !errors.Is(err, chive.ErrResource) {
		t.Errorf("%q, %v", b, err)
	}
	// Without DeferConnected the client does not wait.
	cfg.DeferConnected = false
	if err := l.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	c, out = dial()
	if o = <-out; o.err != nil {
		t.Fatal(o.err)
	}
	defer o.Close()
	if err := c.Refuse(chive.EndConnReset); err != nil {
		t.Error(err)
	}
	if _, err := o.Read(make([]byte, 1)); !errors.Is(err, chive.EndConnReset) {
		t.Error(err)
	}
}
