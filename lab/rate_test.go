package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// TestBandwidthRate sends more bytes through an exit than its limit allows at
// once: all bytes arrive, and take the time that follows from the limit.
func TestBandwidthRate(t *testing.T) {
	const rate = 1 << 20
	nw := start(t, lab.Options{Relays: 2, Exits: 1, Relay: func(name string, cfg *relay.Config) {
		if strings.Contains(name, "exit") {
			cfg.BandwidthRate = rate
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const size = 3 * rate
	began := time.Now()
	if _, err := nw.Fetch(ctx, size); err != nil {
		t.Fatal(err)
	}
	// The limit delays neither the burst nor the bytes still in flight at the
	// end.
	if took, least := time.Since(began), time.Duration(size-rate-rate/4)*time.Second/rate; took < least {
		t.Errorf("%d bytes in %v: less than %v", size, took, least)
	} else {
		t.Logf("%d bytes in %v", size, took)
	}
}
