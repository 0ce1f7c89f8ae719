package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestExitsObserveBothSides: an exit reads from its targets what it writes to its links. What its
// links read is little, so that the lesser direction of the links alone says nothing of what an
// exit carries.
func TestExitsObserveBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Relay)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.housekeep(ctx)
		}()
		const rate = 1_000_000
		for range 12 {
			time.Sleep(time.Second) // virtual: a sample follows
			synctest.Wait()
			r.stats.Channel.BytesIn.Add(rate / 50)
			r.stats.Channel.BytesOut.Add(rate)
			r.stats.Exit.BytesIn.Add(rate)
			r.stats.Exit.BytesOut.Add(rate / 100)
		}
		if got := r.bandwidth.Observed(); got != rate+rate/100 {
			t.Errorf("observed %d bytes a second of a download of %d", got, rate)
		}
		cancel()
		<-done
	})
}
