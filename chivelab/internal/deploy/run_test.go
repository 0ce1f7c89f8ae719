package deploy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// played is a board whose program ends when the test wants it.
type played struct {
	board // what else it may be asked
	ends  chan error
}

func (p *played) wait(ctx context.Context) error {
	select {
	case err := <-p.ends:
		return err
	case <-ctx.Done():
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	}
}

func (p *played) get(context.Context, string) ([]byte, error) {
	return []byte("last words\x1b[2J\n"), nil
}

// TestMeasured: the measurement is over when the client has ended, and has failed when it or another node did, whose last words
// are told.
func TestMeasured(t *testing.T) {
	inv, err := Parse("x.toml", []byte(sevenNodes("")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role Role
		end  error
		want string
	}{
		{Client, nil, ""},
		{Client, errors.New("exit status 1"), "x.toml:30: client failed: exit status 1\nlast words?[2J"},
		{Guard, errors.New("exit status 2"), "x.toml:10: guard failed while the client measured: exit status 2\nlast words"},
		{Monitor, nil, "x.toml:26: monitor has ended: the client was not done\nlast words"},
	} {
		r := &Run{Inventory: inv, boards: map[string]board{}}
		for _, n := range inv.Nodes {
			p := &played{ends: make(chan error, 1)}
			if n.Role == c.role {
				p.ends <- c.end
			}
			r.boards[n.Name] = p
		}
		if err := r.measured(t.Context()); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.role, err)
		}
	}
	r := &Run{Inventory: inv, boards: map[string]board{}}
	for _, n := range inv.Nodes {
		r.boards[n.Name] = &played{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.measured(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
