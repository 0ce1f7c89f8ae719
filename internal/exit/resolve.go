package exit

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
)

// resolve answers a RESOLVE.
func (e *Exit) resolve(h *circuit.Hop, m cell.RelayMsg) error {
	q, err := cell.ParseResolve(m.Data)
	if err != nil {
		return err
	}
	c := e.rules.Load()
	if c == nil {
		return e.answer(h, m.Stream, cell.Resolved{{Type: cell.AnswerError, TTL: maxTTL}})
	}
	if over, destroy := e.take(h); destroy {
		return fault.New(fault.Resource, "the client asks for names faster than the consensus allows")
	} else if over {
		return e.answer(h, m.Stream, cell.Resolved{{Type: cell.AnswerErrorTransient, TTL: minTTL}})
	}
	id := m.Stream
	if e.draining.Load() || !e.hold(h) {
		return e.answer(h, id, cell.Resolved{{Type: cell.AnswerErrorTransient, TTL: minTTL}})
	}
	e.wg.Go(func() {
		defer e.release(h)
		ctx, cancel := context.WithTimeout(e.ctx, c.ConnectTimeout)
		defer cancel()
		_ = e.answer(h, id, c.lookup(ctx, q.Name)) // an error means that the circuit is gone
	})
	return nil
}

// answer sends as many answers as a cell holds.
func (e *Exit) answer(h *circuit.Hop, id uint16, a cell.Resolved) error {
	for {
		body, err := a.Append(nil)
		if err != nil { // a name of a length that no client could read
			return e.answer(h, id, cell.Resolved{{Type: cell.AnswerError, TTL: minTTL}})
		}
		if len(body) <= h.Info().MaxData {
			return ignoreClosed(h.Send(cell.RelayResolved, id, body))
		}
		a = a[:len(a)-1]
	}
}

func (c *rules) lookup(ctx context.Context, name string) cell.Resolved {
	if addr, err := netip.ParseAddr(name); err == nil {
		return cell.Resolved{answerOf(addr.Unmap(), maxTTL)}
	}
	var a Answer
	var err error
	if lower := strings.ToLower(strings.TrimSuffix(name, ".")); strings.HasSuffix(lower, ".in-addr.arpa") || strings.HasSuffix(lower, ".ip6.arpa") {
		a, err = c.names.reverse(ctx, name)
	} else {
		a, err = c.names.addrs(ctx, name, true, c.IPv6)
	}
	switch {
	case errors.Is(err, errNoName):
		return cell.Resolved{{Type: cell.AnswerError, TTL: minTTL}}
	case err != nil:
		return cell.Resolved{{Type: cell.AnswerErrorTransient, TTL: minTTL}}
	case a.Name != "":
		return cell.Resolved{{Type: cell.AnswerHostname, Text: []byte(a.Name), TTL: a.TTL}}
	}
	var out cell.Resolved
	for _, addr := range a.Addrs {
		out = append(out, answerOf(addr, a.TTL))
	}
	return out
}

func answerOf(a netip.Addr, ttl uint32) cell.Answer {
	if a.Is4() {
		return cell.Answer{Type: cell.AnswerIPv4, Addr: a, TTL: ttl}
	}
	return cell.Answer{Type: cell.AnswerIPv6, Addr: a, TTL: ttl}
}
