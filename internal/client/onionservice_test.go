package client

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// TestAround: a service's circuit avoids the relays at which the ones before failed, and
// fails itself after a few, or at once when no relay is to blame.
func TestAround(t *testing.T) {
	given := ident.RSAID{9}
	down := func(n byte) error {
		return &pool.HopError{Relay: ident.RSAID{n}, Err: fault.New(fault.Network, "down")}
	}
	guardless := fault.New(fault.Network, "no guard")
	for name, c := range map[string]struct {
		errs  []error // of one circuit after the other; nil: it is built
		tries int
		want  error
	}{
		"at once":        {[]error{nil}, 1, nil},
		"the third":      {[]error{down(1), down(2), nil}, 3, nil},
		"too many":       {[]error{down(1), down(2), down(3), nil}, 3, down(3)},
		"nobody's fault": {[]error{guardless, nil}, 1, guardless},
	} {
		var seen [][]ident.RSAID
		circ, err := around(t.Context(), path.Spec{Exclude: []ident.RSAID{given}}, func(_ context.Context, s path.Spec) (*OpenCircuit, error) {
			seen = append(seen, s.Exclude)
			if err := c.errs[len(seen)-1]; err != nil {
				return nil, err
			}
			return new(OpenCircuit), nil
		})
		if (circ != nil) != (c.want == nil) || (err == nil) != (c.want == nil) || err != nil && err.Error() != c.want.Error() || len(seen) != c.tries {
			t.Errorf("%s: %v after %d circuits", name, err, len(seen))
		}
		for i, ids := range seen {
			want := []ident.RSAID{given, {1}, {2}}[:i+1]
			if !slices.Equal(ids, want) {
				t.Errorf("%s: circuit %d avoids %v, not %v", name, i+1, ids, want)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	n := 0
	if _, err := around(ended, path.Spec{}, func(context.Context, path.Spec) (*OpenCircuit, error) { n++; cancel(); return nil, down(1) }); n != 1 || !errors.As(err, new(*pool.HopError)) {
		t.Errorf("%d circuits for a service that ended: %v", n, err)
	}
}
