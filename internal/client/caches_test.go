package client

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// begins counts the directory streams of each circuit.
type begins struct {
	mu    sync.Mutex // guards circs
	circs map[*circuit.Circuit]int
}

func (b *begins) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	b.mu.Lock()
	b.circs[h.Circuit()]++
	b.mu.Unlock()
	return h.RefuseStream(m.Stream, cell.End{Reason: cell.EndNotDirectory})
}

// TestRequestsOfOneCircuit: a start with many requests to one cache uses several circuits:
// the cache would close one with more than 60 at once. Those that are spent are closed.
func TestRequestsOfOneCircuit(t *testing.T) {
	b := &begins{circs: map[*circuit.Circuit]int{}}
	cache := simnet.New(t, simnet.Options{Streams: b}).Target
	n := &netdir.Network{Name: "t", Testing: netdir.Testing{AllowPrivateAddresses: true}, Fallbacks: []netdir.Fallback{{RSA: cache.RSA, Ed: cache.Ed, ORPorts: cache.Addrs}}}
	c := isolated(t, n, simnet.Dial)
	k := newCaches(c)
	defer k.close()
	const asked = 3*dirRequests + 1
	var all []dirclient.Stream
	for range asked {
		s, err := k.OpenDir(t.Context(), dirclient.Query{Purpose: dirclient.Microdescriptors})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for _, s := range all {
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Fatal("a stream is open")
		}
		s.Close()
	}
	b.mu.Lock()
	total := 0
	for _, n := range b.circs {
		if n > dirRequests {
			t.Errorf("a circuit has %d requests", n)
		}
		total += n
	}
	if total < asked || len(b.circs) < 4 {
		t.Errorf("%d requests on %d circuits", total, len(b.circs))
	}
	b.mu.Unlock()
	if len(k.spent) != 3 || len(k.circs) != 1 {
		t.Fatalf("%d circuits are spent, %d are not", len(k.spent), len(k.circs))
	}
	k.reap(time.Now().Add(2 * dirLife))
	c.env.WaitEnds()
	if k.mu.Lock(); len(k.spent)+len(k.circs) != 0 {
		t.Errorf("%d spent circuits and %d others are left", len(k.spent), len(k.circs))
	}
	k.mu.Unlock()
}

// TestRequestsByConsensus: a consensus that allows few directory streams is obeyed.
func TestRequestsByConsensus(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]int{"DoSBeginDirBurst=1 ": 1, "DoSBeginDirBurst=-3 ": 1, "DoSBeginDirBurst=100 ": dirRequests, "": dirRequests} {
		var l netdir.Loader
		d, _, err := l.Consensus(bytes.Replace(made.Consensus, []byte("\nparams "), []byte("\nparams "+params), 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := perCircuit(d); n != want {
			t.Errorf("%q: %d", params, n)
		}
	}
	if n := perCircuit(nil); n != dirRequests {
		t.Errorf("without a consensus: %d", n)
	}
}

// TestOpenDirNamesTheCache: whoever asked learns to which cache no circuit opened, and can avoid
// it: nothing else does, as a guard that one can connect to is not unreachable.
func TestOpenDirNamesTheCache(t *testing.T) {
	for name, o := range map[string]simnet.Options{
		"refuses": {Accepted: func(c *channel.CircuitEnd) { c.Destroy(cell.DestroyResourceLimit) }},
		"ends":    {Accepted: func(c *channel.CircuitEnd) { c.Channel().Close(io.EOF) }},
	} {
		cache := simnet.New(t, o).Target
		n := &netdir.Network{Name: "t", Testing: netdir.Testing{AllowPrivateAddresses: true}, Fallbacks: []netdir.Fallback{{RSA: cache.RSA, Ed: cache.Ed, ORPorts: cache.Addrs}}}
		k := newCaches(isolated(t, n, simnet.Dial))
		s, err := k.OpenDir(t.Context(), dirclient.Query{})
		if err == nil || s.Cache != cache.RelayID {
			t.Errorf("%s: %v, %v", name, s.Cache, err)
		}
		k.close()
	}
}
