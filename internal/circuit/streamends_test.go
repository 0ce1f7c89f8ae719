package circuit_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// endOfStreams takes streams at a relay, and does nothing with them until the test
// is over. It tells of the circuit that each came over.
type endOfStreams struct {
	connect bool // it answers BEGIN
	over    chan struct{}
	came    chan *circuit.Circuit
}

func (e *endOfStreams) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	e.came <- h.Circuit()
	if m.Cmd == cell.RelayResolve {
		return nil
	}
	s, err := stream.Accept(h, m.Stream, "example.com")
	if err != nil {
		return err
	}
	go func() {
		<-e.over
		s.Close()
	}()
	if e.connect {
		return s.Connected(netip.MustParseAddr("192.0.2.9"), 60)
	}
	return nil
}

// streamSteps are what a stream waits in; f returns with the wait. The relay at the
// end reads nothing and writes nothing.
var streamSteps = map[string]struct {
	opts   circuit.HopOptions
	silent bool // the relay does not answer BEGIN and RESOLVE
	f      func(ctx context.Context, h *circuit.Hop) error
}{
	"begin": {circuit.HopOptions{}, true, func(ctx context.Context, h *circuit.Hop) error {
		_, err := stream.Dial(ctx, h, "example.com", 80)
		return err
	}},
	"begin, with CGO": {circuit.HopOptions{Congestion: true, CGO: true}, true, func(ctx context.Context, h *circuit.Hop) error {
		_, err := stream.Dial(ctx, h, "example.com", 80)
		return err
	}},
	"resolve": {circuit.HopOptions{}, true, func(ctx context.Context, h *circuit.Hop) error {
		_, err := stream.Resolve(ctx, h, "example.com")
		return err
	}},
	"read": {circuit.HopOptions{}, false, func(ctx context.Context, h *circuit.Hop) error {
		return with(ctx, h, func(s *stream.Stream) error {
			_, err := s.Read(make([]byte, 1))
			return err
		})
	}},
	"write without SENDME": {circuit.HopOptions{}, false, fill},
	"write after XOFF":     {vegas, false, fill},
	"after XOFF, with CGO": {circuit.HopOptions{Congestion: true, CGO: true}, false, fill},
}

// with dials a stream, which a context closes.
func with(ctx context.Context, h *circuit.Hop, f func(*stream.Stream) error) error {
	s, err := stream.Dial(ctx, h, "example.com", 80)
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.SetDeadline(time.Now()) })()
	return f(s)
}

// fill writes until nothing more goes.
func fill(ctx context.Context, h *circuit.Hop) error {
	return with(ctx, h, func(s *stream.Stream) error {
		b := make([]byte, 64<<10)
		for { // over some time: a reader may be slow for a moment
			if _, err := s.Write(b); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// TestStreamsEnd: a stream that waits hears at once how its circuit ended, by which
// fault, and nothing of either is left at the relay or the client.
func TestStreamsEnd(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:9001")
	for name, e := range map[string]struct {
		end     func(c, far *circuit.Circuit, home *channel.CircuitEnd)
		giveUp  bool
		kind    fault.Kind
		says    string
		carries bool // the circuit goes on
	}{
		"the relay destroys the circuit": {kind: fault.Network, says: cell.DestroyHibernating.String(),
			end: func(_, far *circuit.Circuit, _ *channel.CircuitEnd) {
				far.Close(cell.DestroyHibernating, fault.New(fault.Closed, "test"))
			}},
		"the link closes": {kind: fault.Network, says: "closed the connection",
			end: func(_, far *circuit.Circuit, _ *channel.CircuitEnd) {
				far.Channel().Close(fault.New(fault.Closed, "test"))
			}},
		"a cell that nobody recognises": {kind: fault.Protocol, says: "no hop recognises",
			end: func(_, _ *circuit.Circuit, home *channel.CircuitEnd) {
				b := make([]byte, cell.Len)
				cell.PutHeader(b, 0, cell.CmdRelay)
				b[100] = 1
				_ = home.Send(b) // an error is that the circuit has gone, which is checked
			}},
		"the program closes the circuit": {kind: fault.Closed, says: "by the program",
			end: func(c, _ *circuit.Circuit, _ *channel.CircuitEnd) {
				c.Close(cell.DestroyNone, fault.New(fault.Closed, "closed by the program"))
			}},
		"the program gives up": {giveUp: true, kind: fault.Timeout, carries: true,
			end: func(_, _ *circuit.Circuit, _ *channel.CircuitEnd) {}},
	} {
		for step, v := range streamSteps {
			t.Run(step+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n, memory, own := simnet.NewNetwork(), account.New(1<<30), account.New(1<<30)
					accepted := make(chan *channel.CircuitEnd, 1)
					far := &endOfStreams{!v.silent, make(chan struct{}), make(chan *circuit.Circuit, 1)}
					o := simnet.Options{Network: n, Addr: at, Memory: memory, Streams: far,
						Accepted: func(c *channel.CircuitEnd) { accepted <- c }}
					r := simnet.New(t, o)
					m := channel.NewManager(&channel.Config{Log: env.Log, Now: time.Now, Memory: own}, &channel.LinkConfig{Memory: own}, n.Dialer(netip.MustParseAddr("192.0.2.2")))
					defer m.Close()
					link, err := m.Get(t.Context(), r.Target)
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					idle, idleOwn := memory.Used(), own.Used()
					c, err := circuit.Create(t.Context(), env, link, r.Target, v.opts)
					if err != nil {
						t.Fatal(err)
					}
					ctx, giveUp := context.WithCancel(t.Context())
					defer giveUp()
					got := make(chan error, 1)
					go func() { got <- v.f(ctx, c.Last()) }()
					time.Sleep(time.Second) // of virtual time: until all is full
					synctest.Wait()
					if len(got) > 0 || c.Last().Streams() != 1 {
						close(far.over)
						t.Fatalf("it does not wait, with %d streams: %v; circuit: %v", c.Last().Streams(), <-got, c.Err())
					}
					began := time.Now()
					if e.giveUp {
						giveUp()
					}
					e.end(c, <-far.came, <-accepted)
					synctest.Wait()
					if len(got) == 0 {
						t.Fatal("it waits on")
					}
					var timeout interface{ Timeout() bool }
					err = <-got
					if e.giveUp && errors.As(err, &timeout) && timeout.Timeout() {
						// a deadline's error, as of every connection
					} else if !fault.Is(err, e.kind) && !(e.giveUp && errors.Is(err, context.Canceled)) || !strings.Contains(err.Error(), e.says) {
						t.Errorf("%v (%v); want %q (%v)", err, fault.KindOf(err), e.says, e.kind)
					}
					if (c.Err() == nil) != e.carries || c.Err() != nil && !fault.Is(c.Err(), e.kind) {
						t.Errorf("the circuit: %v", c.Err())
					}
					c.Close(cell.DestroyNone, nil)
					close(far.over)
					synctest.Wait()
					if took := time.Since(began); took != 0 {
						t.Errorf("it took a timer of %v", took)
					}
					if n := r.Circuits.Circuits.Load(); n != 0 {
						t.Errorf("%d circuits are left at the relay", n)
					}
					if link.Err() != nil {
						idle, idleOwn = 0, 0
					}
					if a, b := memory.Used(), own.Used(); a != idle || b != idleOwn {
						t.Errorf("the relay holds %d bytes, %d before; the client %d, %d before", a, idle, b, idleOwn)
					}
				})
			})
		}
	}
}
