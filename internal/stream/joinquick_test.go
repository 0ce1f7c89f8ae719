package stream_test

import (
	"io"
	"testing"

	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// finish ends a pump when its stream has ended.
type finish chan struct{}

func (f finish) Up(stream.Joined, error) bool   { return false }
func (f finish) Down(stream.Joined, error) bool { return false }
func (f finish) Done()                          { close(f) }

// TestJoinStartsNothing: a pump begins without a goroutine for what the stream brings, unless that
// has brought something, and has the caller move what the connection brings.
func TestJoinStartsNothing(t *testing.T) {
	for _, waits := range []bool{false, true} {
		program, front := ownedPair(t)
		defer program.Close()
		s := dial(t, build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{})), "echo")
		if waits {
			if _, err := s.Write([]byte("before")); err != nil {
				t.Fatal(err)
			}
			s.AwaitReadable()
		}
		done := make(finish)
		j, up := s.JoinUp(front, nil, &stream.Terms{}, done)
		if n := stream.DownMoves(j); n && !waits {
			t.Error("down moves, and there is nothing")
		}
		moved := make(chan struct{})
		go func() { defer close(moved); up() }()
		if waits {
			got := make([]byte, 6)
			if _, err := io.ReadFull(program, got); err != nil || string(got) != "before" {
				t.Errorf("%q, %v", got, err)
			}
		}
		pass(t, program, program, "there and back")
		j.Cut()
		s.Close()
		<-moved
		<-done
	}
}
