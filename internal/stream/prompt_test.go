package stream_test

import (
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestEndPromptly: where there is no half-close, END comes as soon as a stream that was told so is ended
// on one side, after its data, and else once the far end was silent for a second.
func TestEndPromptly(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.NewNetwork()
			heard := make(chan string, 1)
			r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("10.0.0.1:9001"), Serve: func(s *stream.Stream) {
				b, _ := io.ReadAll(s)
				heard <- string(b)
			}})
			m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("10.0.0.9")))
			defer m.Close()
			s := dial(t, build(t, m, kinds["vegas cgo"], r), "x")
			if prompt {
				s.EndPromptly()
			}
			if _, err := s.Write([]byte("all")); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := s.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := <-heard; got != "all" {
				t.Errorf("the far end heard %q", got)
			}
			if took := time.Since(began); (took < time.Second) != prompt {
				t.Errorf("told to be prompt: %v; END after %v", prompt, took)
			}
			if _, err := io.ReadAll(s); err == nil {
				t.Error("a missing answer looks like the end of a whole one")
			}
			s.Close()
		})
	}
}
