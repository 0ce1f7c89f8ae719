package hsclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// realNet makes each circuit to one relay, whichever was asked for, with another relay before.
type realNet struct {
	fakeNet
	links         *channel.Manager
	middle, relay *simnet.Relay
}

func newRealNet(t *testing.T, o simnet.Options) *realNet {
	t.Helper()
	n := &realNet{middle: simnet.New(t, simnet.Options{}), relay: simnet.New(t, o), links: channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)}
	t.Cleanup(n.links.Close)
	return n
}

func (n *realNet) To(ctx context.Context, _ linkspec.Target, _ []linkspec.Spec) (OwnedCircuit, error) {
	ch, err := n.links.Get(ctx, n.middle.Target)
	if err != nil {
		return nil, err
	}
	c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, n.middle.Target, circuit.HopOptions{})
	if err != nil {
		return nil, err
	}
	return realCircuit{c}, c.Extend(ctx, n.relay.Target, circuit.HopOptions{})
}

func (n *realNet) Internal(ctx context.Context, _ bool) (OwnedCircuit, error) {
	return n.To(ctx, n.relay.Target, nil)
}

// TestFetchOncePerCircuit: directories answer one request for a descriptor on a circuit, and
// the client has a circuit for each, which ends with the answer, or is handed over with it.
func TestFetchOncePerCircuit(t *testing.T) {
	for _, rest := range []bool{false, true} {
		fetchOncePerCircuit(t, rest)
	}
}

func fetchOncePerCircuit(t *testing.T, rest bool) {
	t.Helper()
	asked := make(chan *circuit.Circuit, 10)
	n := newRealNet(t, simnet.Options{Serve: func(s *stream.Stream) {
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
	c := newClient(t, &n.fakeNet)
	c.cfg.Network = n
	var rested []OwnedCircuit
	if rest {
		c.cfg.Rest = func(o OwnedCircuit) { rested = append(rested, o) }
	}
	s := newService(t)
	dirs := directories(madeNet(), madeNet().HSTimes(false), s.blinded)
	seen := map[*circuit.Circuit]bool{}
	for range 3 {
		if _, err := c.ask(t.Context(), c.history(s.id), dirs[0], &s.service, nil); !errors.Is(err, ErrNoDescriptor) {
			t.Fatal(err)
		}
		at := <-asked
		if seen[at] {
			t.Error("a circuit has a second request")
		}
		seen[at] = true
		if rest {
			if len(rested) != 1 || rested[0].Engine().Err() != nil {
				t.Fatalf("%d circuits are handed over", len(rested))
			}
			rested[0].Close()
			rested = nil
		}
		select {
		case <-at.Done():
		case <-time.After(10 * time.Second):
			t.Error("the circuit outlives the answer")
		}
	}
}
