package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdir"
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
