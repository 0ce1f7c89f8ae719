package relay

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// serves has the relay's cache serve a consensus with these parameters, in their order.
func serves(t *testing.T, r *Relay, params string) {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := dirserver.NewConsensus(bytes.Replace(made.Consensus, []byte("\nparams"), []byte("\nparams "+params), 1))
	if err != nil {
		t.Fatal(err)
	}
	r.cache.docs.SetConsensus(c)
}

// begun begins n directory streams, and returns how many were refused.
func begun(t *testing.T, c *circuit.Circuit, n int) (refused int) {
	t.Helper()
	for range n {
		s, err := stream.BeginDir(c.Last())
		if err != nil {
			t.Fatal(err)
		}
		var end *stream.EndError
		switch err := s.WaitOpen(within(t)); {
		case errors.As(err, &end) && end.Reason == cell.EndMisc:
			refused++
		case err != nil:
			t.Fatal(err)
		}
	}
	return refused
}

// TestOneBeginDirOfARelay: if the consensus says so, a circuit that comes from a relay has
// one directory stream; a client's circuit, and the relay's next circuit, are not concerned.
// The relay counts and logs what it refuses.
func TestOneBeginDirOfARelay(t *testing.T) {
	keys := identity(t)
	for _, limited := range []bool{true, false} {
		v := startVictim(t, nil, func(r *Relay) {
			if limited {
				serves(t, r, "DoSBeginDirLimitEnabled=1")
			}
		})
		relay, client := v.connectAs(t, keys), v.connect(t, nil)
		c := relay.circuit()
		want := 0
		if limited {
			want = 4
		}
		if n := begun(t, c, 5); n != want {
			t.Errorf("limited: %v; %d of 5 were refused", limited, n)
		}
		if c.Err() != nil {
			t.Errorf("the circuit is closed: %v", c.Err())
		}
		if n := begun(t, relay.circuit(), 1) + begun(t, client.circuit(), 5); n != 0 {
			t.Errorf("limited: %v; %d of other circuits were refused", limited, n)
		}
		var reg metrics.Registry
		v.Register(&reg)
		var shown metrics.Snapshot
		reg.Snapshot(&shown)
		i := slices.IndexFunc(shown.Counters, func(c metrics.CounterValue) bool { return c.Name == "chive_relay_directory_streams_repeated_total" })
		if i < 0 || int(shown.Counters[i].Value) != want {
			t.Errorf("limited: %v; the metric is wrong", limited)
		}
		v.warnOfRefused(new(refused))
		if told := strings.Contains(v.log.String(), "directory_streams=4"); told != limited {
			t.Errorf("limited: %v; the log says of it: %v", limited, told)
		}
	}
}

// counting notes how many directory streams each circuit has begun.
type counting struct {
	mu    sync.Mutex // guards circs
	circs map[*circuit.Circuit]int
}

func (c *counting) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if m.Cmd == cell.RelayBeginDir {
		c.mu.Lock()
		c.circs[h.Circuit()]++
		c.mu.Unlock()
	}
	return h.RefuseStream(m.Stream, cell.End{Reason: cell.EndMisc})
}

// TestCircuitForEachRequest: each of a relay's own directory requests has a circuit of its
// own, so that caches can refuse second streams of relays' circuits; uploads, too.
func TestCircuitForEachRequest(t *testing.T) {
	far := &counting{circs: map[*circuit.Circuit]int{}}
	cache := simnet.New(t, simnet.Options{Streams: far})
	auth := netdir.Authority{Nickname: "auth", RSA: cache.Target.RSA, Ed: cache.Target.Ed, ORPorts: cache.Target.Addrs}
	v := startVictim(t, func(cfg *Config) {
		network := *cfg.Network
		network.Authorities, network.Fallbacks = []netdir.Authority{auth}, nil
		cfg.Network = &network
	})
	k := &caches{r: v.Relay, failed: map[ident.RSAID]time.Time{}}
	ctx := within(t)
	const each = 3
	for i := range each {
		_, _, err := v.publisher.upload(ctx, auth, []byte("x"))
		var end *stream.EndError
		if !errors.As(err, &end) {
			t.Fatal(err)
		}
		s, err := k.OpenDir(ctx, dirclient.Query{Purpose: dirclient.Purpose(i)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Read(make([]byte, 1)); !errors.As(err, &end) {
			t.Fatal(err)
		}
	}
	far.mu.Lock()
	defer far.mu.Unlock()
	if len(far.circs) < 2*each {
		t.Errorf("%d circuits for %d requests", len(far.circs), 2*each)
	}
	for _, n := range far.circs {
		if n != 1 {
			t.Errorf("a circuit has %d requests", n)
		}
	}
}
