package stream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

var discard = slog.New(slog.DiscardHandler)

// client opens channels without an identity.
func client(t testing.TB) *channel.Manager {
	m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	return m
}

func build(t testing.TB, m *channel.Manager, o circuit.HopOptions, path ...*simnet.Relay) *circuit.Circuit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ch, err := m.Get(ctx, path[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := circuit.Create(ctx, &circuit.Env{Log: discard, Now: time.Now}, ch, path[0].Target, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range path[1:] {
		if err := c.Extend(ctx, r.Target, o); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func dial(t testing.TB, c *circuit.Circuit, host string) *stream.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := stream.Dial(ctx, c.Last(), host, 80)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kinds are the ways to talk to a hop.
var kinds = map[string]circuit.HopOptions{
	"ntor windows":    {Handshake: handshake.Ntor},
	"ntor-v3 windows": {},
	"vegas tor1":      {Congestion: true},
	"vegas cgo":       {Congestion: true, CGO: true},
}

func TestEchoThroughThreeHops(t *testing.T) {
	a, b, c := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	m := client(t)
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			circ := build(t, m, o, a, b, c)
			s := dial(t, circ, "echo")
			want := make([]byte, 3<<20)
			rand.NewChaCha8([32]byte{1}).Read(want)
			var got bytes.Buffer
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := io.CopyN(&got, s, int64(len(want))); err != nil {
					t.Error(err)
				}
			})
			if n, err := s.Write(want); n != len(want) || err != nil {
				t.Fatal(n, err)
			}
			wg.Wait()
			if sha256.Sum256(got.Bytes()) != sha256.Sum256(want) {
				t.Fatal("the echo differs")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if circ.Err() != nil {
				t.Fatal(circ.Err())
			}
		})
	}
}

func TestManyStreamsShareACircuit(t *testing.T) {
	a, b := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	circ := build(t, client(t), circuit.HopOptions{Congestion: true}, a, b)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			s, err := stream.Dial(ctx, circ.Last(), "echo", 80)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			want := bytes.Repeat([]byte{byte(i)}, 60000)
			go s.Write(want)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if n := circ.Last().Streams(); n != 0 {
		t.Fatalf("%d streams are left", n)
	}
}

// TestReaderThatStopsStopsTheSender: nobody reads; the sender's writes must
// block, within the windows, and go on when reading goes on.
func TestReaderThatStopsStopsTheSender(t *testing.T) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			sent := 0
			done := make(chan error, 1)
			r := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) {
				b := make([]byte, 100<<10)
				for range 500 {
					n, err := s.Write(b)
					mu.Lock()
					sent += n
					mu.Unlock()
					if err != nil {
						done <- err
						return
					}
				}
				done <- s.Close()
			}})
			circ := build(t, client(t), o, r)
			s := dial(t, circ, "source")
			// The source stands still when a second passes without progress.
			last := -1
			for {
				mu.Lock()
				now := sent
				mu.Unlock()
				if now == last {
					break
				}
				last = now
				timer := time.NewTimer(time.Second)
				<-timer.C
			}
			if last > 20<<20 {
				t.Fatalf("%d bytes were taken although nobody reads", last)
			}
			n, err := io.Copy(io.Discard, s)
			if err != nil || n != 500*100<<10 {
				t.Fatal(n, err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRefusalsAndResolve(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	circ := build(t, client(t), circuit.HopOptions{}, r)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := stream.Dial(ctx, circ.Last(), "refused", 25)
	var end *stream.EndError
	if !errors.As(err, &end) || end.Reason != cell.EndExitPolicy || end.Addr.String() != "192.0.2.1" || !fault.Is(err, fault.Refused) {
		t.Fatalf("refusal: %v", err)
	}
	as, err := stream.Resolve(ctx, circ.Last(), "example.com")
	if err != nil || len(as) != 1 || as[0].Addr.String() != "192.0.2.1" || as[0].TTL != 60 {
		t.Fatal(as, err)
	}
	if circ.Err() != nil || circ.Last().Streams() != 0 {
		t.Fatal("the circuit must live and be empty")
	}
}

func TestDeadlines(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	s := dial(t, build(t, client(t), circuit.HopOptions{}, r), "echo")
	if err := s.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	var ne net.Error
	if _, err := s.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatal(err)
	}
	if err := s.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatal(err)
	}
	if err := s.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// inMemory runs a test in virtual time, with streams to a relay whose connections
// are in memory. So the peer is silent only when it says nothing.
func inMemory(t *testing.T, serve func(*stream.Stream), test func(t *testing.T, circ *circuit.Circuit)) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.NewNetwork()
		r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("192.0.2.1:9001"), Serve: serve})
		m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("192.0.2.2")))
		defer m.Close()
		test(t, build(t, m, circuit.HopOptions{}, r))
	})
}

// TestHalfClose: the answer that follows CloseWrite still arrives.
func TestHalfClose(t *testing.T) {
	inMemory(t, func(s *stream.Stream) {
		b := make([]byte, 5)
		if _, err := io.ReadFull(s, b); err != nil {
			return
		}
		fmt.Fprintf(s, "got %s", b)
		_ = s.Close()
	}, func(t *testing.T, circ *circuit.Circuit) {
		s := dial(t, circ, "x")
		if _, err := s.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s); string(b) != "got hello" || err != nil {
			t.Fatalf("%q %v", b, err)
		}
	})
}

// TestRelayDies: every stream and circuit through it ends with a cause, and
// the client's other circuits go on.
func TestRelayDies(t *testing.T) {
	a, b, c := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	m := client(t)
	hit, spared := build(t, m, circuit.HopOptions{}, a, b), build(t, m, circuit.HopOptions{}, a, c)
	s, other := dial(t, hit, "echo"), dial(t, spared, "echo")
	b.Stop()
	if _, err := s.Read(make([]byte, 1)); err == nil || !fault.Is(err, fault.Network) {
		t.Fatalf("read: %v", err)
	}
	<-hit.Done()
	if _, err := other.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// TestHalfCloseOfASilentPeer: when the peer says nothing the stream is ended,
// and the reader does not wait for ever, nor take this for the end of an answer.
func TestHalfCloseOfASilentPeer(t *testing.T) {
	ended := make(chan error, 1)
	inMemory(t, func(s *stream.Stream) {
		_, err := io.Copy(io.Discard, s) // C tor does not answer END either
		ended <- err
	}, func(t *testing.T, circ *circuit.Circuit) {
		s := dial(t, circ, "x")
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s); len(b) != 0 || !errors.Is(err, io.ErrUnexpectedEOF) || !fault.Is(err, fault.Network) {
			t.Fatal(b, err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatal("the peer does not hear that the stream has ended")
		}
		if n := circ.Last().Streams(); n != 0 {
			t.Fatalf("%d streams are left", n)
		}
	})
}

// TestAnswerAfterHalfClose: an answer that crosses the END of a half-closed stream is
// read, and nothing more is said of the stream: the peer does not know it any more, and
// would close the circuit with all other streams.
func TestAnswerAfterHalfClose(t *testing.T) {
	const cells, size = 60, 400 // more than a SENDME is for, fewer than the circuit's window
	inMemory(t, func(s *stream.Stream) {
		_, _ = io.Copy(io.Discard, s)
		for range cells {
			if s.Hop().Send(cell.RelayData, s.ID(), make([]byte, size)) != nil {
				return
			}
		}
	}, func(t *testing.T, circ *circuit.Circuit) {
		s := dial(t, circ, "x")
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s); len(b) != cells*size || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(len(b), err)
		}
		synctest.Wait()
		if err := circ.Err(); err != nil {
			t.Fatal("the circuit closed:", err)
		}
	})
}

// TestClosedStreamsAreForgotten: a circuit takes more streams in its life than
// there are identifiers.
func TestClosedStreamsAreForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("70,000 streams")
	}
	r := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) { _, _ = io.Copy(io.Discard, s) }})
	circ := build(t, client(t), circuit.HopOptions{}, r)
	for i := range 70_000 {
		s, err := stream.Begin(circ.Last(), "x", 80, stream.AnyFamily)
		if err != nil {
			t.Fatal(i, err)
		}
		if i%100 == 0 {
			if err := s.WaitOpen(t.Context()); err != nil {
				t.Fatal(i, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(i, err)
		}
	}
}

// TestHalfCloseOfBothEnds: when both ends close their sides, each reads all of the
// other's bytes and then EOF, whichever end's time passes first.
func TestHalfCloseOfBothEnds(t *testing.T) {
	ended := make(chan error, 1)
	inMemory(t, func(s *stream.Stream) {
		_, werr := s.Write([]byte("whole"))
		_, err := io.Copy(io.Discard, s)
		ended <- errors.Join(werr, s.CloseWrite(), err)
	}, func(t *testing.T, circ *circuit.Circuit) {
		s := dial(t, circ, "x")
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s); string(b) != "whole" || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%q %v", b, err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
	inMemory(t, func(s *stream.Stream) {
		_, werr := s.Write([]byte("whole"))
		cerr := s.CloseWrite()
		b, err := io.ReadAll(s)
		if string(b) != "x" {
			err = errors.Join(err, errors.New("not all"))
		}
		ended <- errors.Join(werr, cerr, err)
	}, func(t *testing.T, circ *circuit.Circuit) {
		s := dial(t, circ, "x")
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s); string(b) != "whole" || err != nil {
			t.Fatalf("%q %v", b, err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
