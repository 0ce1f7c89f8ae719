package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/stream"
)

// TestResolveUnattached: while controllers attach streams, a lookup waits for one, too, who may choose the client's circuits or end it.
func TestResolveUnattached(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndMisc}).Append(nil))
	for name, x := range map[string]struct {
		do   func(id uint64) error
		want []StreamStep
	}{
		"attach": {func(id uint64) error { return c.Attach(id, 0, 0) }, []StreamStep{StreamNew, StreamWaits, StreamSent}},
		"close":  {func(id uint64) error { return c.CloseStream(id, cell.EndMisc) }, []StreamStep{StreamNew, StreamWaits, StreamFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			h := listen(t, c)
			c.LeaveUnattached(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := c.Resolve(ctx, Request{Host: "example.com"})
				done <- err
			}()
			r := h.waits(t, StreamWaits)
			if !r.Lookup || r.Circuit != 0 {
				t.Errorf("%+v", r)
			}
			if err := x.do(r.ID); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err == nil {
				t.Error("there is an answer")
			}
			h.waits(t, StreamClosed)
			if got := h.steps(r.ID); !slices.Equal(got[:min(len(got), 3)], x.want) {
				t.Error(got)
			}
		})
	}
}

// TestAnsweredOnce: an exit's answer to a lookup is one, also if it is that there is no such host. After other failures a controller
// is asked again, a few times.
func TestAnsweredOnce(t *testing.T) {
	for want, failure := range map[int]error{
		1:           fmt.Errorf("the exit says: %w", stream.ErrLookup),
		streamTries: errors.New("the circuit has closed"),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &Client{}
			c.ctx, c.cancel = context.WithCancelCause(t.Context())
			c.LeaveUnattached(true)
			ctx, s := c.beginStream(t.Context(), &Request{Host: "example.com"}, true)
			tries, done := 0, make(chan error, 1)
			go func() {
				done <- s.attached(ctx, func(attachment) error { tries++; return failure })
			}()
			for range streamTries {
				synctest.Wait()
				s.attach(attachment{circ: &OpenCircuit{}})
			}
			if err := <-done; !errors.Is(err, failure) || tries != want {
				t.Errorf("%v after %d tries, of %d", err, tries, want)
			}
		})
	}
}
