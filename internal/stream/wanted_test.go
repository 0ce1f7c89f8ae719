package stream_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
)

// TestWanted: what a stream leads to is no longer opened once its client has gone; after data
// of the client it may still take five seconds.
func TestWanted(t *testing.T) {
	for name, o := range map[string]struct {
		steps []func(testing.TB, *raw)
		close bool // the circuit
		takes time.Duration
	}{
		"END":                      {[]func(testing.TB, *raw){endDone}, false, 0},
		"END after data":           {[]func(testing.TB, *raw){data, endDone}, false, 5 * time.Second},
		"half-closed":              {[]func(testing.TB, *raw){halfClosed}, false, time.Minute},
		"half-closed, then END":    {[]func(testing.TB, *raw){halfClosed, endDone}, false, 0},
		"the circuit":              {nil, true, 0},
		"the circuit, after data":  {[]func(testing.TB, *raw){data}, true, 0},
		"nothing":                  {nil, false, time.Minute},
		"data, and nothing else":   {[]func(testing.TB, *raw){data}, false, time.Minute},
		"the circuit after an END": {[]func(testing.TB, *raw){endDone}, true, 0},
	} {
		for _, first := range []bool{false, true} { // the client goes before anybody waits
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					exit := make(accepting, 1)
					n := simnet.NewNetwork()
					r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("10.0.0.1:9001"), Proto: halves, Streams: exit})
					m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("10.0.0.9")))
					defer m.Close()
					c := build(t, m, kinds["vegas cgo"], r)
					client := halfClient(t, c, cell.BeginHalfClose)
					s := <-exit
					defer s.Reject(cell.EndMisc, netip.Addr{}, 0)
					leave := func() {
						for _, step := range o.steps {
							step(t, client)
						}
						if o.close {
							c.Close(cell.DestroyNone, fault.New(fault.Closed, "the test ends it"))
						}
						synctest.Wait()
					}
					limited, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if first {
						leave()
					}
					ctx, stop := s.Wanted(limited)
					defer stop()
					began := time.Now()
					if !first {
						leave()
					}
					<-ctx.Done()
					if took := time.Since(began); took < o.takes || took > o.takes+time.Second {
						t.Errorf("it is wanted for %v, not %v", took, o.takes)
					}
				})
			})
		}
	}
}
