package stream_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// TestClosedHasKind: what is called on a closed stream, or waits when it is closed, returns
// an error of kind Closed, which is net.ErrClosed, too.
func TestClosedHasKind(t *testing.T) {
	inMemory(t, func(*stream.Stream) {}, func(t *testing.T, circ *circuit.Circuit) {
		read := func(s *stream.Stream) error { _, err := s.Read(make([]byte, 1)); return err }
		write := func(s *stream.Stream) error { _, err := s.Write(make([]byte, 1<<20)); return err }
		writeTo := func(s *stream.Stream) error { _, err := s.WriteTo(io.Discard); return err }
		readFrom := func(s *stream.Stream) error { _, err := s.ReadFrom(strings.NewReader("x")); return err }
		judge := func(what string, err error) {
			if !errors.Is(err, net.ErrClosed) || !fault.Is(err, fault.Closed) {
				t.Errorf("%s: %v of kind %v", what, err, fault.KindOf(err))
			}
		}
		for what, call := range map[string]func(*stream.Stream) error{"Read": read, "Write": write, "WriteTo": writeTo} {
			s := dial(t, circ, "x")
			waits := make(chan error, 1)
			go func() { waits <- call(s) }()
			synctest.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			judge(what+" that waits", <-waits)
			judge(what, call(s))
			judge("ReadFrom", readFrom(s))
		}
		s := dial(t, circ, "x")
		if err := s.CloseWrite(); err != nil {
			t.Error(err)
		}
		judge("Write after CloseWrite", write(s))
		s.Close()
	})
}
