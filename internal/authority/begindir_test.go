package authority

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestBeginDirRate: an authority's ORPort, too, goes by the consensus's rate of directory
// streams of one circuit.
func TestBeginDirRate(t *testing.T) {
	all, _ := inMemory(t, 1, keyPool(t, 2048, 1), keyPool(t, 2048, 1), nil)
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	served, err := dirserver.NewConsensus(bytes.Replace(made.Consensus, []byte("\nparams"), []byte("\nparams DoSBeginDirBurst=1 DoSBeginDirDefenseType=2 DoSBeginDirRate=1"), 1))
	if err != nil {
		t.Fatal(err)
	}
	all[0].docs.SetConsensus(served)
	o := &orPort{a: all[0], ctx: t.Context()}
	r := simnet.New(t, simnet.Options{Streams: o})
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(func() { m.Close(); o.wg.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := m.Get(ctx, r.Target)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (refused int) {
		c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, r.Target, circuit.HopOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var streams []*stream.Stream
		for range 40 {
			s, err := stream.BeginDir(c.Last())
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		for _, s := range streams {
			if err := s.WaitOpen(ctx); err != nil {
				refused++
			}
		}
		c.Close(cell.DestroyNone, nil)
		return refused
	}
	if n := open(); n == 0 || n == 40 {
		t.Errorf("%d of 40 were refused", n)
	}
	served, err = dirserver.NewConsensus(bytes.Replace(made.Consensus, []byte("\nparams"), []byte("\nparams DoSBeginDirRateEnabled=0"), 1))
	if err != nil {
		t.Fatal(err)
	}
	all[0].docs.SetConsensus(served)
	if n := open(); n != 0 {
		t.Errorf("%d of 40 were refused although the consensus sets no limit", n)
	}
}
