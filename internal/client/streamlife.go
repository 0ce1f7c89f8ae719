package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
)

// streamLife is one stream or lookup.
type streamLife struct {
	c    *Client
	stop context.CancelCauseFunc // ends the attempt to open it

	mu     sync.Mutex // guards what follows
	r      StreamReport
	conn   *Conn           // nil: it is not open
	orders chan attachment // not nil: it waits for a controller
	shut   bool            // a controller has closed it before it was open
	closed bool
}

// beginStream notes that somebody asks for a stream.
func (c *Client) beginStream(ctx context.Context, req *Request, lookup bool) (context.Context, *streamLife) {
	c.Wake()
	s := &streamLife{c: c, r: StreamReport{ID: c.ids.Add(1), Host: req.Host, Port: req.Port, From: req.From, Lookup: lookup}}
	ctx, s.stop = context.WithCancelCause(ctx)
	c.lives.addStream(s)
	c.watch.stream(s.report())
	return ctx, s
}

func (v *lives) addStream(s *streamLife) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.streams == nil {
		v.streams = map[uint64]*streamLife{}
	}
	v.streams[s.r.ID] = s
}

func (v *lives) stream(id uint64) *streamLife {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.streams[id]
}

func (v *lives) forgetStream(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.streams, id)
}

func (v *lives) allStreams() []*streamLife {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.streams))
}

// carries reports whether a circuit has a stream.
func (v *lives) carries(circuit uint64) bool {
	return slices.ContainsFunc(v.allStreams(), func(s *streamLife) bool { return s.report().Circuit == circuit })
}

// report returns the stream as it is.
func (s *streamLife) report() StreamReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reportLocked()
}

func (s *streamLife) reportLocked() StreamReport {
	r := s.r
	if s.conn != nil {
		r.Read, r.Written = s.conn.Bytes()
	}
	return r
}

// step notes a step, and tells it, unless the stream is over: then it reports false.
func (s *streamLife) step(step StreamStep, change func(*StreamReport)) bool {
	r, ok := s.note(step, change)
	if ok {
		s.c.watch.stream(r)
	}
	return ok
}

// note returns the stream as it is after the step: when it is told, another step may have come.
func (s *streamLife) note(step StreamStep, change func(*StreamReport)) (StreamReport, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || step == StreamFailed && s.r.Step == step {
		return StreamReport{}, false // a controller was there before
	}
	s.r.Step, s.closed = step, step == StreamClosed
	if change != nil {
		change(&s.r)
	}
	return s.reportLocked(), true
}

// target returns where the stream is to go, which a controller may have changed.
func (s *streamLife) target() (string, uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Host, s.r.Port
}

// to notes that a rule of MapAddress sends the stream elsewhere.
func (s *streamLife) to(host string) {
	if was, _ := s.target(); was != host {
		s.step(StreamMapped, func(r *StreamReport) { r.Host, r.ByExit = host, false })
	}
}

// sent notes that the request is on its way.
func (s *streamLife) sent(circuit uint64) {
	s.step(StreamSent, func(r *StreamReport) { r.Circuit = circuit })
}

// opened notes that the stream is open, and which address the exit told. It reports false if a controller has
// closed the stream meanwhile.
func (s *streamLife) opened(conn *Conn) bool {
	if !s.carry(conn) {
		return false
	}
	if a := conn.ExitAddr(); a.IsValid() {
		if host, _ := s.target(); host != a.String() {
			s.step(StreamMapped, func(r *StreamReport) { r.Host, r.ByExit = a.String(), true })
		}
	}
	return s.step(StreamOpened, func(r *StreamReport) { r.Circuit = conn.circ })
}

// carry notes what the stream is, from when on that is closed with it.
func (s *streamLife) carry(conn *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return false
	}
	s.conn = conn
	return true
}

// failed notes that nothing came of it.
func (s *streamLife) failed(err error) {
	s.stop(nil)
	s.step(StreamFailed, func(r *StreamReport) { r.Err = err })
	s.ended(err)
}

// ended notes the end.
func (s *streamLife) ended(err error) {
	s.c.lives.forgetStream(s.r.ID)
	s.step(StreamClosed, func(r *StreamReport) { r.Err = err })
}

// Streams returns the streams and lookups that there are, the oldest first.
func (c *Client) Streams() []StreamReport {
	all := c.lives.allStreams()
	out := make([]StreamReport, len(all))
	for i, s := range all {
		out[i] = s.report()
	}
	slices.SortFunc(out, func(a, b StreamReport) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// attachment is a circuit that a controller chose for a stream; none: the client chooses.
type attachment struct {
	circ *OpenCircuit
	hop  int // where the stream leaves it; 0: at its end
}

// last returns the hop at which a stream leaves the circuit: the one that a controller has chosen, or the last. A stream
// whose circuit the client chose leaves it at the exit that was chosen for such streams, whatever was added meanwhile.
func (a attachment) last(circ *OpenCircuit) *circuit.Hop {
	hops := circ.Hops()
	switch {
	case a.hop > 0:
		return hops[a.hop-1]
	case a.circ == nil:
		return hops[min(len(hops), len(circ.path.Hops))-1]
	}
	return circ.Last()
}

// attachTimeout is how long a stream waits for a controller to attach it; C tor has the same.
const attachTimeout = 2 * time.Minute

var errUnattached = fault.New(fault.Timeout, "no controller attached the stream in time")

// awaitAttach waits for a controller, if one wants to attach all streams itself. No circuit: the client
// chooses.
func (s *streamLife) awaitAttach(ctx context.Context) (to attachment, err error) {
	orders := make(chan attachment, 1)
	if !s.await(orders) {
		return to, nil
	}
	s.step(StreamWaits, func(r *StreamReport) { r.Circuit = 0 })
	defer s.stopWaiting()
	t := time.NewTimer(attachTimeout)
	defer t.Stop()
	select {
	case on := <-orders:
		return on, nil
	case <-t.C:
		return to, errUnattached
	case <-ctx.Done():
		return to, fault.Ended(ctx, "%w", context.Cause(ctx))
	case <-s.c.ctx.Done():
		return to, context.Cause(s.c.ctx)
	}
}

// await has controllers attach the stream, unless the client attaches streams itself. It looks under the lock:
// LeaveUnattached, which takes it for each stream, comes before that, or finds the stream waiting.
func (s *streamLife) await(orders chan attachment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c.unattached.Load() {
		s.orders = orders
	}
	return s.orders != nil
}

func (s *streamLife) stopWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = nil
}

// LeaveUnattached says whether new streams wait until a controller attaches them. Streams that wait
// when that ends are the client's.
func (c *Client) LeaveUnattached(on bool) {
	c.unattached.Store(on)
	if on {
		return
	}
	for _, s := range c.lives.allStreams() {
		s.attach(attachment{})
	}
}

// attach gives a stream that waits to a circuit, and reports whether it waited.
func (s *streamLife) attach(to attachment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders == nil {
		return false
	}
	s.orders <- to
	s.orders = nil
	return true
}

// Errors of steering.
var (
	ErrNotWaiting  = errors.New("the stream does not wait for a controller")
	ErrNotOpen     = errors.New("the circuit is not open")
	ErrOneHop      = errors.New("the circuit has one hop")
	ErrNoHop       = errors.New("the circuit has fewer hops")
	ErrNotForThese = errors.New("the circuit is not for such streams")
	ErrLongHost    = errors.New("the host name is too long")
)

// Attach gives a stream that waits to a circuit; 0: to one that the client chooses. hop says at which hop it leaves
// the circuit; 0: at the last.
func (c *Client) Attach(stream, on uint64, hop int) error {
	s := c.lives.stream(stream)
	if s == nil {
		return ErrUnknown
	}
	var to attachment
	if on != 0 { // else the client chooses the hop, too
		to.hop = hop
		l := c.lives.circuit(on)
		if l == nil {
			return ErrUnknown
		}
		if err := l.takes(&to); err != nil {
			return err
		}
	}
	if !s.attach(to) {
		return ErrNotWaiting
	}
	return nil
}

// takes returns the circuit if streams can be attached to it.
func (l *circuitLife) takes(to *attachment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.r.Step < CircuitBuilt:
		return ErrNotOpen
	case len(l.r.Path) < 2 || to.hop == 1:
		return ErrOneHop
	case l.circ == nil || l.r.Purpose == ForOnions || l.r.Purpose == ForSet:
		return ErrNotForThese
	}
	if to.hop > len(l.circ.Hops()) {
		return ErrNoHop
	}
	to.circ = l.circ
	return nil
}

// maxHost is the length of the longest name that SOCKS takes.
const maxHost = 255

// Redirect changes where a stream goes, if it is not open; port 0 keeps the port.
func (c *Client) Redirect(stream uint64, host string, port uint16) error {
	s := c.lives.stream(stream)
	if s == nil {
		return ErrUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders == nil {
		return ErrNotWaiting
	}
	if len(host) > maxHost {
		return ErrLongHost
	}
	s.r.Host, s.r.Port = host, cmp.Or(port, s.r.Port)
	return nil
}

// HasStream reports whether there is a stream with a number.
func (c *Client) HasStream(id uint64) bool { return c.lives.stream(id) != nil }

// ClosedByController is why a stream ends that a controller closes.
type ClosedByController struct{ cell.EndReason }

func (c ClosedByController) Error() string { return "a controller closed the stream" }

// CloseStream ends a stream with a reason.
func (c *Client) CloseStream(stream uint64, reason cell.EndReason) error {
	s := c.lives.stream(stream)
	if s == nil {
		return ErrUnknown
	}
	conn := s.shutUnopened()
	if conn == nil {
		s.step(StreamFailed, func(r *StreamReport) { r.Err = ClosedByController{reason} })
		s.ended(ClosedByController{reason})
		s.stop(fault.Also(fault.New(fault.Closed, "%w", ClosedByController{reason}), net.ErrClosed))
		return nil
	}
	conn.ordered.Store(true)
	_ = conn.CloseReason(reason)
	return conn.Close()
}

// shutUnopened returns what carries the stream; nil: from now on nothing will.
func (s *streamLife) shutUnopened() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = s.conn == nil
	return s.conn
}

// hostPort is how a destination is written.
func hostPort(host string, port uint16) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// Target returns the destination in C tor's form.
func (r *StreamReport) Target() string { return hostPort(r.Host, r.Port) }
