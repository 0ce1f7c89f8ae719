package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// TestLateLegs: in place of a leg of a set that is late another one begins at once, to the same exit and without the relays of the
// other leg, but only so often; and the set as a whole is never told to be late.
func TestLateLegs(t *testing.T) {
	for again, want := range []int{0, 1, 2, 2} {
		virtually(t, true, func(t *testing.T, l *laggard) {
			first, err := l.build(t.Context(), pool.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			l.lookForLate(time.Now())
			l.slow(600 * time.Millisecond)
			var specs []*pool.Spec
			s := &setLegs{again: again, choose: func(spec *pool.Spec) (*path.Path, error) {
				specs = append(specs, spec)
				return l.path()
			}}
			for i := range s.paths {
				s.specs[i] = &pool.Spec{Spec: path.Spec{Dests: []path.Dest{{Port: 443}}, Stable: true}, Country: "xy", Late: func() { t.Error("the set is late") }}
				if s.paths[i], err = l.path(); err != nil {
					t.Fatal(err)
				}
			}
			type result struct {
				legs [2]*OpenCircuit
				errs [2]error
			}
			done := make(chan result, 1)
			begun := l.begun.Load()
			go func() {
				legs, errs := l.buildLegs(t.Context(), s)
				done <- result{legs, errs}
			}()
			time.Sleep(1050 * time.Millisecond)
			synctest.Wait()
			if got := l.begun.Load() - begun; got != 2 {
				t.Fatalf("%d circuits", got)
			}
			l.slow(10 * time.Millisecond) // for those that begin now
			time.Sleep(50 * time.Millisecond)
			l.lookForLate(time.Now())
			r := <-done
			built := 0
			for i, leg := range r.legs {
				if leg != nil {
					built++
					leg.Close()
				} else if !errors.Is(r.errs[i], pool.ErrLate) {
					t.Error(r.errs[i])
				}
			}
			if got := int(l.begun.Load() - begun); built != want || got != 2+want || len(specs) != want {
				t.Errorf("with %d again: %d legs of %d circuits, %d paths chosen", again, built, got, len(specs))
			}
			for _, spec := range specs {
				if spec.Last == nil || spec.Last.RSA != l.relays[2].RSA || !spec.Stable || len(spec.Dests) != 1 || spec.Country != "xy" ||
					len(spec.Exclude) != 1 || spec.Exclude[0] != l.relays[0].RSA || len(spec.ExcludeMiddle) != 1 {
					t.Errorf("%+v", spec)
				}
			}
			time.Sleep(5 * time.Second)
		})
	}
}

// TestInTime: what an onion service builds for itself begins again at the next second if it is late, but not for ever.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Client
		tries := 0
		build := func() (*OpenCircuit, error) {
			if tries++; tries == 3 {
				return &OpenCircuit{}, nil
			}
			return nil, pool.ErrLate
		}
		end := make(chan struct{})
		go func() {
			for ticks := time.Tick(time.Second); ; c.seconds.tick() {
				select {
				case <-ticks:
				case <-end:
					return
				}
			}
		}()
		begin := time.Now()
		if circ, err := c.inTime(t.Context(), build); circ == nil || err != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		tries = 3
		if _, err := c.inTime(t.Context(), build); !errors.Is(err, pool.ErrLate) || tries != 6 {
			t.Errorf("%v after %d tries", err, tries-3)
		}
		close(end)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.inTime(gone, build); !errors.Is(err, pool.ErrLate) {
			t.Error(err)
		}
	})
}
