package stream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// Family says which addresses an exit may use for a host name (tor-spec,
// "opening streams").
type Family uint8

// The families.
const (
	AnyFamily Family = iota // IPv4 is preferred
	IPv4Only
	IPv6Only
	IPv6First // both, and IPv6 is preferred
)

func (f Family) flags() cell.BeginFlags {
	switch f {
	case IPv4Only:
		return 0
	case IPv6Only:
		return cell.BeginIPv6OK | cell.BeginIPv4NotOK // no preference, as C tor: there is no choice
	case IPv6First:
		return cell.BeginIPv6OK | cell.BeginIPv6Preferred
	}
	return cell.BeginIPv6OK
}

// Dial opens a stream to a host (a name, an IPv4 or an IPv6 address) and port
// through the hop, and waits for CONNECTED.
func Dial(ctx context.Context, h *circuit.Hop, host string, port uint16) (*Stream, error) {
	s, err := Begin(h, host, port, AnyFamily)
	if err != nil {
		return nil, err
	}
	if err := s.WaitOpen(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Through returns the family to ask an exit for that allows IPv6, or does not: asked what it
// cannot do, it would learn from the flags which program asks. C tor does the same.
func (f Family) Through(six bool) Family {
	if !six && f != IPv6Only {
		return IPv4Only
	}
	return f
}

// Begin sends BEGIN and returns at once. Data written before WaitOpen returns is
// optimistic data.
func Begin(h *circuit.Hop, host string, port uint16, f Family) (*Stream, error) {
	m, err := cell.NewBegin(host, port, f.flags()|halfClose(h))
	if err != nil {
		return nil, fault.Wrap(fault.Config, err)
	}
	return begin(h, host, port, cell.RelayBegin, m.Append(nil))
}

// BeginOnion is Begin over the virtual hop of a rendezvous, to a port of an onion
// service. name is what RemoteAddr says; it is not sent.
func BeginOnion(h *circuit.Hop, name string, port uint16) (*Stream, error) {
	m, err := cell.NewOnionBegin(port)
	if err != nil {
		return nil, err
	}
	m.Flags = halfClose(h)
	return begin(h, name, port, cell.RelayBegin, m.Append(nil))
}

// BeginDir opens a directory stream to the hop itself. The
// caller may write a request at once, without waiting for CONNECTED. The hop must be no leg
// of a conflux set.
func BeginDir(h *circuit.Hop) (*Stream, error) {
	if h.Conflux() != nil {
		return nil, fault.New(fault.Local, "BEGIN_DIR on a conflux set, which carries no directory streams")
	}
	return begin(h, "directory", 0, cell.RelayBeginDir, nil)
}

func begin(h *circuit.Hop, host string, port uint16, cmd cell.RelayCommand, body []byte) (*Stream, error) {
	s := newStream(h, host, port)
	s.opened = make(chan struct{})
	s.halves = cmd == cell.RelayBegin && h.Info().HalfClose
	if err := h.OpenStream(func(id uint16) circuit.StreamReceiver { s.id = id; return s }); err != nil {
		s.account.Close()
		return nil, err
	}
	if err := h.Send(cmd, s.id, body); err != nil {
		h.RemoveStream(s.id, true)
		s.account.Close()
		return nil, err
	}
	return s, nil
}

// WaitOpen waits until the exit has answered. On an error the stream is
// closed; an *EndError is in the chain when the exit refused.
func (s *Stream) WaitOpen(ctx context.Context) error {
	s.mu.Lock()
	opened := s.opened
	s.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
		_ = s.Close()
		return fault.Ended(ctx, "open stream: %w", context.Cause(ctx))
	}
	if err := s.openErr(); err != nil {
		_ = s.Close()
		return fault.New(fault.KindOf(err), "open stream: %w", err)
	}
	return nil
}

// openErr returns why the stream did not open.
func (s *Stream) openErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connected {
		return nil
	}
	return s.writeErrLocked()
}

// Answer is one answer to a lookup.
type Answer struct {
	Addr netip.Addr // for a name
	Name string     // for an address
	TTL  uint32     // seconds
}

// lookup is a RESOLVE under way: a stream that gets one message.
type lookup struct {
	hop    *circuit.Hop
	id     uint16
	answer chan lookupResult
}

type lookupResult struct {
	m   cell.Resolved
	err error
}

func (l *lookup) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	var result lookupResult
	switch m.Cmd {
	case cell.RelayResolved:
		r, err := cell.ParseResolved(m.Data)
		if err != nil {
			return err
		}
		result.m = r
	case cell.RelayEnd:
		e := cell.ParseEnd(m.Data)
		result.err = fault.New(endKind(e.Reason), "%w", &EndError{Reason: e.Reason, Lookup: true})
	default:
		return fault.New(fault.Protocol, "%v answers RESOLVE", m.Cmd)
	}
	// First, because a caller that has its answer expects the identifier to be free.
	l.hop.RemoveStream(l.id, true)
	l.finish(result)
	return nil
}

func (l *lookup) Flush() {}

func (l *lookup) HandleCircuitClose(cause error) { l.finish(lookupResult{err: cause}) }

func (l *lookup) finish(r lookupResult) {
	select {
	case l.answer <- r:
	default:
	}
}

// Resolve looks a name up at the hop, or an address when name is one or its
// ReverseName ("reverse lookup": the answers are names).
func Resolve(ctx context.Context, h *circuit.Hop, name string) ([]Answer, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		name = cell.ReverseName(a)
	}
	_, reverse := cell.ParseReverseName(name)
	m, err := cell.NewResolve(name)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err)
	}
	l := &lookup{hop: h, answer: make(chan lookupResult, 1)}
	if err := h.OpenStream(func(id uint16) circuit.StreamReceiver { l.id = id; return l }); err != nil {
		return nil, err
	}
	if err := h.Send(cell.RelayResolve, l.id, m.Append(nil)); err != nil {
		h.RemoveStream(l.id, true)
		return nil, err
	}
	var r lookupResult
	select {
	case r = <-l.answer:
	case <-ctx.Done():
		h.RemoveStream(l.id, false)
		return nil, fault.Ended(ctx, "resolve: %w", context.Cause(ctx))
	}
	if r.err != nil {
		return nil, fault.New(fault.KindOf(r.err), "resolve: %w", r.err)
	}
	return answers(r.m, reverse)
}

// maxTTL bounds what an exit may say of how long its answers hold: an hour is
// the longest that exits say (tor-spec, "remote hostname lookup").
const maxTTL = 60 * 60

// ErrLookup is in the chain of an error that an exit's answer to a lookup means.
var ErrLookup = errors.New("resolve")

// answers reads a message: names for an address, and addresses for a name. It
// leaves out names that are no host names.
func answers(m cell.Resolved, reverse bool) ([]Answer, error) {
	var out []Answer
	for _, a := range m {
		ttl := min(a.TTL, maxTTL)
		switch a.Type {
		case cell.AnswerIPv4, cell.AnswerIPv6:
			if !reverse {
				out = append(out, Answer{Addr: netaddr.Plain(a.Addr), TTL: ttl})
			}
		case cell.AnswerHostname:
			if reverse && netaddr.HostName(string(a.Text)) {
				out = append(out, Answer{Name: string(a.Text), TTL: ttl})
			}
		case cell.AnswerErrorTransient:
			return nil, fault.New(fault.Network, "%w: %w", ErrLookup, &net.DNSError{Err: "the exit could not look it up; trying again may help", Name: "[scrubbed]", IsTemporary: true})
		case cell.AnswerError:
			// As Go's resolver says it, so that callers can tell it from a
			// failure; the name stays out of errors, which are logged.
			return nil, fault.New(fault.Network, "%w: %w", ErrLookup, &net.DNSError{Err: "no such host, says the exit", Name: "[scrubbed]", IsNotFound: true})
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Network, "%w: %w", ErrLookup, &net.DNSError{Err: "the exit's answer has nothing that was asked for", Name: "[scrubbed]", IsNotFound: true})
	}
	return out, nil
}
