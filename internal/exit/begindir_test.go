package exit

import (
	"bytes"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// servedWith returns documents with a consensus that has these parameters, in their order.
func servedWith(t *testing.T, params string) *dirserver.Memory {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := dirserver.NewConsensus(bytes.Replace(made.Consensus, []byte("\nparams"), []byte("\nparams "+params), 1))
	if err != nil {
		t.Fatal(err)
	}
	m := new(dirserver.Memory)
	m.SetConsensus(c)
	return m
}

// TestBeginDirRate: a circuit that begins directory streams faster than the consensus
// allows is closed, or the streams are refused. Exit streams are not limited with them.
func TestBeginDirRate(t *testing.T) {
	for _, c := range []struct {
		params           string
		refused, destroy bool
	}{
		{"DoSBeginDirBurst=1 DoSBeginDirRate=1", false, true},
		{"DoSBeginDirBurst=1 DoSBeginDirDefenseType=3 DoSBeginDirRate=1", false, true},
		{"DoSBeginDirBurst=1 DoSBeginDirDefenseType=2 DoSBeginDirRate=1", true, false},
		{"DoSBeginDirBurst=1 DoSBeginDirDefenseType=1 DoSBeginDirRate=1", false, false},
		{"DoSBeginDirBurst=1 DoSBeginDirRate=1 DoSBeginDirRateEnabled=0", false, false},
		{"DoSBeginDirLimitEnabled=1", false, false}, // a client's circuit
	} {
		dir := dirserver.New(dirserver.Config{Docs: servedWith(t, c.params)})
		e, circ := setup(t, accept(t, "accept *:*"), dir)
		const asked = 40
		var all []*stream.Stream
		for range asked {
			s, err := stream.BeginDir(circ.Last())
			if err != nil {
				break // it is closed
			}
			all = append(all, s)
		}
		refused := 0
		for _, s := range all {
			if err := s.WaitOpen(t.Context()); err != nil && circ.Err() == nil {
				wantEnd(t, err, cell.EndMisc)
				refused++
			}
		}
		if (refused > 0) != c.refused || (circ.Err() != nil) != c.destroy {
			t.Errorf("%s: %d of %d refused; circuit: %v", c.params, refused, asked, circ.Err())
		}
		if c.destroy && circ.Err() != nil && !strings.Contains(circ.Err().Error(), cell.DestroyResourceLimit.String()) {
			t.Errorf("%s: closed with %v", c.params, circ.Err())
		}
		if got := dir.Stats().Quick.Load(); (got > 0) != (c.refused || c.destroy) || c.destroy && got != 1 {
			t.Errorf("%s: %d were counted", c.params, got)
		}
		if !c.destroy {
			if _, err := dial(t, circ, "127.0.0.1", echoServer(t)); err != nil {
				t.Errorf("%s: an exit stream: %v", c.params, err)
			}
		}
		e.Close()
	}
}

// TestBeginDirBeforeRoom: what has no room counts for the rate, too.
func TestBeginDirBeforeRoom(t *testing.T) {
	cfg := accept(t, "accept *:*")
	cfg.MaxPerCircuit = 1
	_, circ := setup(t, cfg, dirserver.New(dirserver.Config{Docs: servedWith(t, "DoSBeginDirBurst=5 DoSBeginDirRate=1")}))
	for range 40 {
		if _, err := stream.BeginDir(circ.Last()); err != nil {
			break
		}
	}
	<-circ.Done()
}
