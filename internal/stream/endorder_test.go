package stream_test

import (
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestCloseWhileWriting: no DATA follows END when a stream is closed while another goroutine
// writes to it. The peer does not know the stream any more, and would close the circuit,
// with all the other streams on it.
func TestCloseWhileWriting(t *testing.T) {
	r := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) {
		s.Read(make([]byte, 1))
		s.Close()
	}})
	c := build(t, client(t), kinds["vegas cgo"], r)
	for range 300 {
		var all sync.WaitGroup
		for range 4 {
			s := dial(t, c, "x")
			started := make(chan struct{}, 1)
			all.Go(func() {
				for {
					_, err := s.Write(make([]byte, 100))
					select {
					case started <- struct{}{}:
					default:
					}
					if err != nil {
						return
					}
				}
			})
			all.Go(func() { <-started; s.Close() })
		}
		all.Wait()
	}
	dial(t, c, "x").Close() // the relay has taken all cells before it
}
