package hsservice

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// oneRelay makes each circuit to one relay, whichever was asked for.
type oneRelay struct {
	nowhere
	links *channel.Manager
	relay *simnet.Relay
}

func newOneRelay(t *testing.T, o simnet.Options) oneRelay {
	t.Helper()
	n := oneRelay{relay: simnet.New(t, o), links: channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)}
	t.Cleanup(n.links.Close)
	return n
}

func (n oneRelay) To(ctx context.Context, _ linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	ch, err := n.links.Get(ctx, n.relay.Target)
	if err != nil {
		return nil, 0, err
	}
	c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, n.relay.Target, circuit.HopOptions{})
	return c, 1, err
}

func (n oneRelay) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return n.To(ctx, t, nil)
}

// TestDirectoryOncePerCircuit: directories take one upload, or answer one request, on a
// circuit, and the service has a circuit for each, which ends with the answer, or is handed over
// with it.
func TestDirectoryOncePerCircuit(t *testing.T) {
	for _, rest := range []bool{false, true} {
		directoryOncePerCircuit(t, rest)
	}
}

func directoryOncePerCircuit(t *testing.T, rest bool) {
	t.Helper()
	asked := make(chan *circuit.Circuit, 10)
	n := newOneRelay(t, simnet.Options{Serve: func(s *stream.Stream) {
		asked <- s.Hop().Circuit()
		r, err := http.ReadRequest(bufio.NewReader(s))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(s, "HTTP/1.0 404 Not found\r\n\r\n")
		_ = s.Close()
	}})
	s, _ := hosted(t, n)
	var ends []func()
	if rest {
		s.cfg.Rest = func(_ *circuit.Circuit, closeIt func()) { ends = append(ends, closeIt) }
	}
	dir := someDirectory(t).Relay(0)
	seen := map[*circuit.Circuit]bool{}
	for i := range 4 {
		if i%2 == 0 {
			if _, err := s.upload(t.Context(), dir, []byte("x")); err == nil {
				t.Error("an upload that nobody has taken")
			}
		} else if got, err := s.fetch(t.Context(), dir, ident.Ed25519ID{1}); got != nil || err != nil {
			t.Error(got, err)
		}
		at := <-asked
		if seen[at] {
			t.Error("a circuit has a second request")
		}
		seen[at] = true
		if rest {
			if len(ends) != 1 || at.Err() != nil {
				t.Fatalf("%d circuits are handed over, and this one has ended: %v", len(ends), at.Err())
			}
			ends[0]()
			ends = nil
		}
		select {
		case <-at.Done():
		case <-time.After(10 * time.Second):
			t.Error("the circuit outlives the answer")
		}
	}
}
