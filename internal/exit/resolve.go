package exit

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// resolve answers a RESOLVE.
func (e *Exit) resolve(h *circuit.Hop, m cell.RelayMsg) error {
	q, err := cell.ParseResolve(m.Data)
	c := e.rules.Load()
	if c == nil || err != nil { // C tor too answers a name that cannot be one, and keeps the circuit
		return e.answer(h, m.Stream, cell.Resolved{{Type: cell.AnswerError}})
	}
	if over, destroy := e.take(h, m.Cmd); destroy {
		return fault.New(fault.Resource, "the client asks for names faster than the consensus allows")
	} else if over {
		return e.answer(h, m.Stream, cell.Resolved{{Type: cell.AnswerErrorTransient}})
	}
	id := m.Stream
	if e.takesNoStreams() || !e.hold(h) {
		return e.answer(h, id, cell.Resolved{{Type: cell.AnswerErrorTransient}})
	}
	ctx, cancel := context.WithTimeout(e.ctx, c.ConnectTimeout)
	client := &asker{h: h, id: id, cancel: cancel}
	if err := h.AcceptStream(id, client); err != nil {
		cancel()
		e.release(h)
		return asked(err)
	}
	e.wg.Go(func() {
		defer panics.Recover(e.opts.Log, func(error) {
			client.answer(e, cell.Resolved{{Type: cell.AnswerErrorTransient}})
		})
		defer e.release(h)
		defer cancel()
		acct := h.Circuit().Account()
		acct.Reserve(resolveCost)
		defer acct.Release(resolveCost)
		client.answer(e, e.lookUpName(ctx, h, c, q.Name))
	})
	return nil
}

// asked returns what follows from an error of AcceptStream for a lookup: C tor drops one that
// names a stream that there is already, or none.
func asked(err error) error {
	return fault.Except(fault.Protocol, fault.Except(fault.Closed, err))
}

// asker is a client that waits for the answer to a lookup. Its END ends the lookup, and so does
// its circuit's end.
type asker struct {
	h      *circuit.Hop
	id     uint16
	cancel context.CancelFunc
	left   atomic.Bool
}

// leave forgets the client, whose identifier may be used again; false if that was done before.
func (a *asker) leave() bool {
	if a.left.Swap(true) {
		return false
	}
	a.h.RemoveStream(a.id, true) // no END follows RESOLVED
	return true
}

// answer answers the client, if it still waits.
func (a *asker) answer(e *Exit, r cell.Resolved) {
	if a.leave() {
		_ = e.answer(a.h, a.id, r) // an error means that the circuit is gone
	}
}

// HandleMessage implements circuit.StreamReceiver.
func (a *asker) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	if m.Cmd == cell.RelayEnd && a.leave() {
		a.cancel()
	}
	return nil
}

// Flush implements circuit.StreamReceiver.
func (a *asker) Flush() {}

// HandleCircuitClose implements circuit.StreamReceiver.
func (a *asker) HandleCircuitClose(error) { a.cancel() }

// resolveCost is the memory of a lookup under way without its questions, in bytes.
const resolveCost = 8 << 10

// answer sends as many answers as a cell holds.
func (e *Exit) answer(h *circuit.Hop, id uint16, a cell.Resolved) error {
	for i := range a {
		a[i].TTL = toldTTL
	}
	for {
		body, err := a.Append(nil)
		if err != nil { // a name of a length that no client could read
			return e.answer(h, id, cell.Resolved{{Type: cell.AnswerError}})
		}
		if len(body) <= h.Info().MaxData {
			return fault.Except(fault.Closed, h.Send(cell.RelayResolved, id, body))
		}
		a = a[:len(a)-1]
	}
}

// tells reports whether clients may hear of an address that a name has: of the private ones
// that the operator's name server knows only if streams may go there.
func (c *rules) tells(a netip.Addr) bool { return c.Private || netaddr.Public(a) }

// lookUpName looks a name up, or an address if name is a reverse name.
func (e *Exit) lookUpName(ctx context.Context, h *circuit.Hop, c *rules, name string) cell.Resolved {
	if addr, err := netip.ParseAddr(name); err == nil {
		return cell.Resolved{answerOf(netaddr.Plain(addr))}
	}
	a, err := e.lookup(ctx, h, families(true, c.IPv6), func(ctx context.Context) (Answer, error) {
		lower := strings.ToLower(strings.TrimSuffix(name, "."))
		if !strings.HasSuffix(lower, ".in-addr.arpa") && !strings.HasSuffix(lower, ".ip6.arpa") {
			return c.names.addrs(ctx, name, true, c.IPv6)
		}
		addr, ok := cell.ParseReverseName(lower)
		if !ok || !c.tells(addr) {
			return Answer{}, errNoName
		}
		return c.names.reverse(ctx, name)
	})
	if err == nil && a.Name == "" {
		if a.Addrs = slices.DeleteFunc(slices.Clone(a.Addrs), func(a netip.Addr) bool { return !c.tells(a) }); len(a.Addrs) == 0 {
			err = errNoName
		}
	}
	switch {
	case errors.Is(err, errNoName):
		return cell.Resolved{{Type: cell.AnswerError}}
	case err != nil:
		return cell.Resolved{{Type: cell.AnswerErrorTransient}}
	case a.Name != "":
		return cell.Resolved{{Type: cell.AnswerHostname, Text: []byte(a.Name)}}
	}
	var out cell.Resolved
	for _, addr := range a.Addrs {
		out = append(out, answerOf(addr))
	}
	return out
}

func answerOf(a netip.Addr) cell.Answer {
	if a.Is4() {
		return cell.Answer{Type: cell.AnswerIPv4, Addr: a}
	}
	return cell.Answer{Type: cell.AnswerIPv6, Addr: a}
}
