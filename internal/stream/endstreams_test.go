package stream_test

import (
	"errors"
	"io"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestEndStreams: the far end of a hop ends all its streams with a reason, and the circuit goes on.
func TestEndStreams(t *testing.T) {
	exit := make(accepting, 2)
	c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{Streams: exit}))
	request := func() (s, far *stream.Stream) {
		s, err := stream.BeginOnion(c.Last(), "x", 80)
		if err != nil {
			t.Fatal(err)
		}
		return s, <-exit
	}
	a, far := request()
	b, _ := request()
	far.Hop().EndStreams(cell.EndDestroy)
	for _, s := range []*stream.Stream{a, b} {
		var end *stream.EndError
		if _, err := s.Read(make([]byte, 1)); !errors.As(err, &end) || end.Reason != cell.EndDestroy {
			t.Errorf("%v", err)
		}
	}
	if n := far.Hop().Streams(); n != 0 {
		t.Errorf("%d streams are left", n)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the far end reads %v", err)
	}
	next, _ := request()
	if err := next.Close(); err != nil || c.Err() != nil {
		t.Error(err, c.Err())
	}
}
