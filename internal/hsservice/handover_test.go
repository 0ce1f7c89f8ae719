package hsservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// slowPeriod is a shelf whose directories take half a minute for the descriptors of all periods
// but one.
type slowPeriod struct {
	*shelf
	fast ident.Ed25519ID // the blinded key of that one
}

func (b slowPeriod) upload(ctx context.Context, dir netdir.Relay, doc []byte) (bool, error) {
	if d, err := netdoc.ParseHSDescriptor(doc, time.Now()); err == nil && d.Blinded != b.fast {
		time.Sleep(30 * time.Second)
	}
	return b.shelf.upload(ctx, dir, doc)
}

// TestHandOverOfBothPeriods: a host leaves as soon as the next one says that it is published.
// By then the descriptor that clients do not use yet names the next one, too.
func TestHandOverOfBothPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		a := h.join(t, Config{Key: k, Fleet: true}, 3)
		if err := a.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var now ident.Ed25519ID
		for _, p := range periodsOf(h.dir, false) {
			if p.Period == h.dir.HSTimes(false).Period {
				x, err := newDescriptor(k, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				now = x.keys.Blinded.Public()
			}
		}
		b := h.joinBy(t, slowPeriod{h, now}, Config{Key: k, Fleet: true}, 3)
		if err := b.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Withdraw(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.expect(t, "handed over", k, b)
		kill(a)
		kill(b)
	})
}
