package stream_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// halves is what a relay advertises that takes HALF_CLOSE.
const halves = simnet.Protocols + " ChiveStream=1"

// TestRealHalfClose: each end reads all of the other's bytes and then their end, and may
// write for as long as it likes after it has read that end. No stream is left.
func TestRealHalfClose(t *testing.T) {
	for name, o := range kinds {
		for who, clientFirst := range map[string]bool{"client": true, "target": false} {
			t.Run(name+", "+who+" first", func(t *testing.T) {
				served := make(chan error, 1)
				far := make(chan *stream.Stream, 1)
				r := simnet.New(t, simnet.Options{Proto: halves, Serve: func(s *stream.Stream) {
					far <- s
					served <- talk(s, "answer", "question", !clientFirst)
				}})
				c := build(t, client(t), o, r)
				s := dial(t, c, "x")
				if !s.HalfClose() {
					t.Fatal("it was not negotiated")
				}
				if err := talk(s, "question", "answer", clientFirst); err != nil {
					t.Error(err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
				if _, err := s.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("a write after CloseWrite: %v", err)
				}
				hop := (<-far).Hop()
				s.Close()
				for end := time.Now().Add(time.Minute); c.Last().Streams()+hop.Streams() > 0; {
					if time.Now().After(end) {
						t.Fatalf("%d and %d streams are left", c.Last().Streams(), hop.Streams())
					}
				}
				if err := c.Err(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// talk says a million bytes and then the last word, and reads as much from the far end: it
// says all before it reads, or the other way round.
func talk(s *stream.Stream, say, hear string, first bool) error {
	speak := func() error {
		_, err := s.Write(append(make([]byte, 1<<20), say...))
		return errors.Join(err, s.CloseWrite(), s.CloseWrite())
	}
	listen := func() error {
		b, err := io.ReadAll(s)
		if len(b) != 1<<20+len(hear) || string(b[1<<20:]) != hear {
			err = errors.Join(err, errors.New("not all was heard"))
		}
		return err
	}
	if first {
		return errors.Join(speak(), listen())
	}
	return errors.Join(listen(), speak())
}

// TestHalfCloseAtOnce: both ends half-close at the same moment; each has all bytes.
func TestHalfCloseAtOnce(t *testing.T) {
	served := make(chan error, 1)
	r := simnet.New(t, simnet.Options{Proto: halves, Serve: func(s *stream.Stream) {
		_, err := s.Write([]byte("a"))
		err = errors.Join(err, s.CloseWrite())
		b, rerr := io.ReadAll(s)
		if string(b) != "q" {
			rerr = errors.Join(rerr, errors.New("not all was heard"))
		}
		served <- errors.Join(err, rerr)
	}})
	c := build(t, client(t), kinds["vegas cgo"], r)
	for range 50 {
		s := dial(t, c, "x")
		if _, err := s.Write([]byte("q")); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s); string(b) != "a" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

// raw is a stream whose messages the test sends itself.
type raw struct {
	hop *circuit.Hop
	id  uint16
	end chan cell.EndReason
}

func (r *raw) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	if m.Cmd == cell.RelayEnd {
		r.end <- cell.ParseEnd(m.Data).Reason
	}
	return nil
}
func (r *raw) Flush()                   {}
func (r *raw) HandleCircuitClose(error) {}

func (r *raw) send(t testing.TB, cmd cell.RelayCommand, body []byte) {
	t.Helper()
	if err := r.hop.Send(cmd, r.id, body); err != nil && !fault.Is(err, fault.Closed) {
		t.Fatal(err)
	}
}

// halfClient opens a stream whose messages the test sends itself.
func halfClient(t testing.TB, c *circuit.Circuit, flags cell.BeginFlags) *raw {
	t.Helper()
	r := &raw{hop: c.Last(), end: make(chan cell.EndReason, 10)}
	if err := r.hop.OpenStream(func(id uint16) circuit.StreamReceiver { r.id = id; return r }); err != nil {
		t.Fatal(err)
	}
	m, err := cell.NewBegin("x", 80, flags)
	if err != nil {
		t.Fatal(err)
	}
	r.send(t, cell.RelayBegin, m.Append(nil))
	return r
}

var (
	halfClosed = func(t testing.TB, r *raw) { r.send(t, cell.RelayHalfClose, nil) }
	data       = func(t testing.TB, r *raw) { r.send(t, cell.RelayData, []byte("x")) }
	endDone    = func(t testing.TB, r *raw) { r.send(t, cell.RelayEnd, (&cell.End{Reason: cell.EndDone}).Append(nil)) }
	sendme     = func(t testing.TB, r *raw) { r.send(t, cell.RelaySendme, nil) }
	unknown    = func(t testing.TB, r *raw) { (&raw{hop: r.hop, id: r.id ^ 0x5555}).send(t, cell.RelayHalfClose, nil) }
)

// TestHostileHalfClose: what a client may do about half-closed streams at an exit, and
// what ends its circuit.
func TestHostileHalfClose(t *testing.T) {
	type step = func(testing.TB, *raw)
	const asked = cell.BeginHalfClose
	for name, c := range map[string]struct {
		flags cell.BeginFlags
		o     string
		steps []step
		ends  bool
	}{
		"once":                    {asked, "vegas cgo", []step{data, halfClosed}, false},
		"at once":                 {asked, "vegas cgo", []step{halfClosed}, false},
		"then END":                {asked, "vegas cgo", []step{halfClosed, endDone}, false},
		"not asked for":           {0, "vegas cgo", []step{halfClosed}, true},
		"twice":                   {asked, "vegas cgo", []step{halfClosed, halfClosed}, true},
		"then DATA":               {asked, "vegas cgo", []step{halfClosed, data}, true},
		"then DATA, fixed window": {asked, "ntor windows", []step{halfClosed, data}, true},
		"a SENDME too many":       {asked, "ntor windows", []step{halfClosed, sendme}, true},
		"of no stream":            {asked, "vegas cgo", []step{unknown}, true},
		"after END":               {asked, "vegas cgo", []step{endDone, halfClosed}, true},
	} {
		t.Run(name, func(t *testing.T) {
			open := make(chan *stream.Stream, 1)
			r := simnet.New(t, simnet.Options{Proto: halves, Serve: func(s *stream.Stream) { open <- s }})
			circ := build(t, client(t), kinds[c.o], r)
			s := halfClient(t, circ, c.flags)
			far := <-open
			for _, f := range c.steps {
				f(t, s)
			}
			if c.ends {
				<-circ.Done()
				return
			}
			if b, err := io.ReadAll(far); err != nil || len(b) > 1 {
				t.Fatal(b, err)
			}
			other := dial(t, circ, "x") // the circuit still works
			<-open
			other.Close()
			if err := circ.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestHalfCloseFlood: messages for a stream that the exit has closed are dropped, but not
// without end.
func TestHalfCloseFlood(t *testing.T) {
	r := simnet.New(t, simnet.Options{Proto: halves, Serve: func(s *stream.Stream) { s.Close() }})
	circ := build(t, client(t), kinds["vegas cgo"], r)
	s := halfClient(t, circ, cell.BeginHalfClose)
	<-s.end
	for range 30_000 {
		s.send(t, cell.RelayHalfClose, nil)
	}
	<-circ.Done()
}

// badExit accepts a stream and sends what it likes.
type badExit struct {
	connect bool
	send    []cell.RelayCommand
}

func (b badExit) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	r := &raw{hop: h, id: m.Stream, end: make(chan cell.EndReason, 10)}
	if err := h.AcceptStream(m.Stream, r); err != nil {
		return err
	}
	if b.connect {
		if err := h.Send(cell.RelayConnected, m.Stream, nil); err != nil {
			return err
		}
	}
	for _, cmd := range b.send {
		if err := h.Send(cmd, m.Stream, nil); err != nil {
			return err
		}
	}
	return nil
}

// TestHostileExit: what an exit may send about half-closed streams to a client.
func TestHostileExit(t *testing.T) {
	half := cell.RelayHalfClose
	for name, c := range map[string]struct {
		exit  badExit
		proto string
		ends  bool
	}{
		"once":             {badExit{true, []cell.RelayCommand{half}}, halves, false},
		"then DATA":        {badExit{true, []cell.RelayCommand{half, cell.RelayData}}, halves, true},
		"twice":            {badExit{true, []cell.RelayCommand{half, half}}, halves, true},
		"before CONNECTED": {badExit{false, []cell.RelayCommand{half}}, halves, true},
		"not advertised":   {badExit{true, []cell.RelayCommand{half}}, simnet.Protocols, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := simnet.New(t, simnet.Options{Proto: c.proto, Streams: c.exit})
			circ := build(t, client(t), kinds["vegas cgo"], r)
			s, err := stream.Begin(circ.Last(), "x", 80, stream.AnyFamily)
			if err != nil {
				t.Fatal(err)
			}
			if c.ends {
				<-circ.Done()
				return
			}
			if b, err := io.ReadAll(s); len(b) != 0 || err != nil {
				t.Fatal(b, err)
			}
			if _, err := s.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestIdleHalfClose: a half-closed stream on which nothing moves ends at the end that
// accepted it, and the other hears of it; one on which something moves goes on.
func TestIdleHalfClose(t *testing.T) {
	for _, clientFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.NewNetwork()
			ended := make(chan time.Duration, 1)
			r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("10.0.0.1:9001"), Proto: halves, Serve: func(s *stream.Stream) {
				began := time.Now()
				if clientFirst {
					_, _ = io.ReadAll(s)
					time.Sleep(20 * time.Minute)
					if _, err := s.Write([]byte("slow")); err != nil {
						t.Error(err)
					}
				} else if err := s.CloseWrite(); err != nil {
					t.Error(err)
				}
				for s.Hop().Streams() > 0 {
					time.Sleep(time.Minute)
				}
				ended <- time.Since(began)
			}})
			m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("10.0.0.9")))
			defer m.Close()
			c := build(t, m, kinds["vegas cgo"], r)
			s := dial(t, c, "x")
			if clientFirst {
				if err := s.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				var end *stream.EndError
				if b, err := io.ReadAll(s); string(b) != "slow" || !errors.As(err, &end) || end.Reason != cell.EndTimeout {
					t.Errorf("%q, %v", b, err)
				}
			} else if b, err := io.ReadAll(s); len(b) != 0 || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			if took := <-ended; took < 30*time.Minute || took > 2*time.Hour {
				t.Errorf("it ended after %v", took)
			}
			synctest.Wait()
			if n := c.Last().Streams(); n != 0 {
				t.Errorf("%d streams are left", n)
			}
		})
	}
}

// TestHalfCloseAtSilentExit: an exit that never answers HALF_CLOSE cannot keep a client's
// stream for ever.
func TestHalfCloseAtSilentExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.NewNetwork()
		r := simnet.New(t, simnet.Options{Network: n, Addr: netip.MustParseAddrPort("10.0.0.1:9001"), Proto: halves, Streams: badExit{connect: true}})
		m := channel.NewManager(&channel.Config{Log: discard, Now: time.Now}, &channel.LinkConfig{}, n.Dialer(netip.MustParseAddr("10.0.0.9")))
		defer m.Close()
		c := build(t, m, kinds["vegas cgo"], r)
		s := dial(t, c, "x")
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		s.SetReadDeadline(time.Now().Add(3 * time.Hour))
		if b, err := io.ReadAll(s); len(b) != 0 || !fault.Is(err, fault.Timeout) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q, %v", b, err)
		}
		if n := c.Last().Streams(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}
