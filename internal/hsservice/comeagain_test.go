package hsservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
)

// frozen is a client whose first circuit goes through a relay that does not answer. The others
// fail at once.
type frozen struct {
	nowhere
	calls chan time.Time
}

func (f frozen) To(ctx context.Context, _ linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	f.calls <- time.Now()
	if len(f.calls) == 1 {
		<-ctx.Done()
	}
	return nil, 0, fault.New(fault.Network, "no circuit")
}

// TestAnotherWay: a relay on the way to a rendezvous point that does not answer leaves time
// for another way, before the client gives up.
func TestAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan time.Time, 2*rendTries)
		s, p := hosted(t, frozen{calls: calls})
		m, err := s.decrypt(p, ask().message(t, p), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.rendezvous(t.Context(), m); err == nil {
			t.Error("a circuit from nowhere")
		}
		if len(calls) != rendTries {
			t.Fatalf("%d ways were tried", len(calls))
		}
		if took := -time.Until(<-calls); took >= rendTimeout {
			t.Errorf("after %v", took)
		}
	})
}
