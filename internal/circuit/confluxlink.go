package circuit

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// ErrLinkGivenUp is in the cause of circuits that LinkConflux closed because its
// context had ended.
var ErrLinkGivenUp = errors.New("link circuits: given up")

// LinkConflux makes one set of a client's circuits, which must end at the same
// relay, with congestion control, and have no streams yet. After an error all of
// them are closed. Callers open streams on the last hop of the set's first leg: the
// one with the lowest round-trip time, on which most is sent. The set can do without
// another leg, but not without that one.
func LinkConflux(ctx context.Context, circs []*Circuit, ux cell.ConfluxUX) (*ConfluxSet, error) {
	s, err := linkConflux(ctx, circs, ux)
	if err != nil {
		if ctx.Err() != nil {
			err = fault.New(fault.KindOf(err), "%w: %w", ErrLinkGivenUp, err)
		} else {
			err = fault.New(fault.KindOf(err), "link circuits: %w", err)
		}
		for _, c := range circs {
			c.Close(cell.DestroyNone, err)
		}
	}
	return s, err
}

func linkConflux(ctx context.Context, circs []*Circuit, ux cell.ConfluxUX) (*ConfluxSet, error) {
	link := cell.ConfluxLink{UX: ux}
	if _, err := rand.Read(link.Nonce[:]); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	s := newConfluxSet(link.Nonce, circs[0].env.Now)
	type asked struct {
		want *Expectation
		at   time.Time
	}
	var open []asked
	for _, c := range circs {
		h := c.Last()
		if !h.info.Congestion || !h.closeToStreams() {
			return nil, fault.New(fault.Local, "a leg lacks congestion control or has streams already")
		}
		want, err := h.Expect(cell.RelayConfluxLinked)
		if err != nil {
			return nil, err
		}
		defer want.Cancel()
		open = append(open, asked{want, s.now()})
		if err := h.Send(cell.RelayConfluxLink, 0, link.Append(nil)); err != nil {
			return nil, err
		}
	}
	legs := make([]*leg, len(open))
	for i, a := range open {
		_, body, err := a.want.Wait(ctx)
		if err != nil {
			return nil, err
		}
		got, err := cell.ParseConfluxLink(body)
		if err != nil {
			return nil, err
		}
		if subtle.ConstantTimeCompare(got.Nonce[:], link.Nonce[:]) != 1 || got.LastSent != 0 || got.LastRecv != 0 {
			return nil, fault.New(fault.Protocol, "CONFLUX_LINKED: it is for another set")
		}
		s.ux = got.UX // C tor's exits ask for little latency, whatever they were asked for
		h := circs[i].Last()
		if legs[i] = (&leg{hop: h, rtt: h.linkedAt.Sub(a.at)}); legs[i].rtt < legs[0].rtt {
			legs[0], legs[i] = legs[i], legs[0]
		}
	}
	for _, l := range legs {
		if err := s.add(l); err != nil {
			return nil, err
		}
	}
	for _, c := range circs {
		if err := c.Last().Send(cell.RelayConfluxLinkedAck, 0, nil); err != nil {
			return nil, err
		}
	}
	legs[0].hop.openToStreams()
	return s, nil
}

// closeToStreams keeps new streams from a hop that is about to be a leg: only the first leg
// has streams, and nobody knows yet which one this will be. It reports false if there are
// streams already.
func (h *Hop) closeToStreams() bool {
	h.smu.Lock()
	defer h.smu.Unlock()
	h.isLeg = h.live == 0
	return h.isLeg
}

func (h *Hop) openToStreams() {
	h.smu.Lock()
	defer h.smu.Unlock()
	h.isLeg = false
}

// confluxLinked notes when LINKED came, and gives it to who waits for it: it may wait for
// that of another leg first.
func confluxLinked(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if h.meta.waitsFor(m.Cmd) {
		h.linkedAt = h.Now()
	}
	return awaited(h, m, cc)
}
