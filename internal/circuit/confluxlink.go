package circuit

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// Linking makes one set of a client's circuits. As C tor's clients do, it asks the exit for each leg
// when that one is built, and acknowledges each answer when it comes: an exit would tell by legs that come
// at the same time who waits until it has all of them.
type Linking struct {
	link cell.ConfluxLink

	mu   sync.Mutex // guards what follows
	ux   cell.ConfluxUX
	legs map[*Circuit]*leg // that the exit has linked
}

// Errors in the cause of circuits that Link closed.
var (
	// ErrLinkGivenUp: the context had ended.
	ErrLinkGivenUp = errors.New("link circuits: given up")
	// ErrLinkSlow: the answer took too long.
	ErrLinkSlow = errors.New("CONFLUX_LINKED: it comes too late")
	// ErrLinkFalse: the exit counts messages of a set that has none. Nothing that it says of the set is to be believed.
	ErrLinkFalse = errors.New("CONFLUX_LINKED: messages are counted that do not exist")
)

// NewLinking begins a set that asks the exit for this choice of legs.
func NewLinking(ux cell.ConfluxUX) (*Linking, error) {
	k := &Linking{link: cell.ConfluxLink{UX: ux}, legs: map[*Circuit]*leg{}}
	if _, err := rand.Read(k.link.Nonce[:]); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return k, nil
}

// Link asks the exit to make the circuit a leg of the set, and waits for its answer. The circuit must have
// congestion control, and no streams yet. After an error it is closed. tooSlow, if it is not nil, says whether this is too
// long a round-trip time.
func (k *Linking) Link(ctx context.Context, c *Circuit, tooSlow func(rtt time.Duration) bool) error {
	a, err := k.ask(c)
	if err == nil {
		err = k.answered(ctx, a, tooSlow)
	}
	if err != nil {
		err = linkFailed(ctx, err, c)
	}
	return err
}

// linkFailed closes the circuits that an error leaves.
func linkFailed(ctx context.Context, err error, circs ...*Circuit) error {
	if ctx.Err() != nil {
		err = fault.New(fault.KindOf(err), "%w: %w", ErrLinkGivenUp, err)
	} else {
		err = fault.New(fault.KindOf(err), "link circuits: %w", err)
	}
	for _, c := range circs {
		c.Close(cell.DestroyNone, err)
	}
	return err
}

// asked is a circuit on which LINK was sent.
type asked struct {
	hop  *Hop
	want *Expectation
	at   time.Time
}

func (k *Linking) ask(c *Circuit) (*asked, error) {
	h := c.Last()
	if !h.info.Congestion || !h.closeToStreams() {
		return nil, fault.New(fault.Local, "a leg lacks congestion control or has streams already")
	}
	want, err := h.Expect(cell.RelayConfluxLinked)
	if err != nil {
		return nil, err
	}
	a := &asked{h, want, h.Now()}
	if err := h.Send(cell.RelayConfluxLink, 0, k.link.Append(nil)); err != nil {
		want.Cancel()
		return nil, err
	}
	return a, nil
}

// answered waits for LINKED, and acknowledges it.
func (k *Linking) answered(ctx context.Context, a *asked, tooSlow func(time.Duration) bool) error {
	_, body, err := a.want.Wait(ctx)
	if err != nil {
		return err
	}
	got, err := cell.ParseConfluxLink(body)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(got.Nonce[:], k.link.Nonce[:]) != 1 {
		return fault.New(fault.Protocol, "CONFLUX_LINKED: it is for another set")
	}
	if got.LastSent != 0 || got.LastRecv != 0 {
		return fault.Wrap(fault.Protocol, ErrLinkFalse)
	}
	rtt := a.hop.linkedAt.Sub(a.at)
	if tooSlow != nil && tooSlow(rtt) {
		return fault.Wrap(fault.Timeout, ErrLinkSlow)
	}
	if err := a.hop.Send(cell.RelayConfluxLinkedAck, 0, nil); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ux = got.UX // C tor's exits ask for little latency, whatever they were asked for
	k.legs[a.hop.c] = &leg{hop: a.hop, rtt: rtt}
	return nil
}

// Join makes the set of circuits that were linked. After an error they are closed. Callers open streams on
// the last hop of the set's first leg: the one with the lowest round-trip time, on which most is
// sent. The set can do without another leg, but not without that one.
func (k *Linking) Join(circs []*Circuit) (*ConfluxSet, error) {
	s := newConfluxSet(k.link.Nonce, circs[0].env.Now)
	var legs []*leg
	legs, s.ux = k.sorted(circs)
	for _, l := range legs {
		if err := s.add(l); err != nil {
			return nil, linkFailed(context.Background(), err, circs...)
		}
	}
	legs[0].hop.openToStreams()
	return s, nil
}

// sorted returns the legs, the one with the lowest round-trip time first, and what the exit asks for.
func (k *Linking) sorted(circs []*Circuit) (legs []*leg, ux cell.ConfluxUX) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range circs {
		legs = append(legs, k.legs[c])
	}
	slices.SortStableFunc(legs, func(a, b *leg) int { return cmp.Compare(a.rtt, b.rtt) })
	return legs, k.ux
}

// LinkConflux makes one set of circuits that are all built. After an error all of them are closed.
func LinkConflux(ctx context.Context, circs []*Circuit, ux cell.ConfluxUX) (*ConfluxSet, error) {
	k, err := NewLinking(ux)
	if err == nil {
		err = k.linkAll(ctx, circs)
	}
	if err != nil {
		return nil, linkFailed(ctx, err, circs...)
	}
	return k.Join(circs)
}

// linkAll asks on all circuits at once.
func (k *Linking) linkAll(ctx context.Context, circs []*Circuit) error {
	var open []*asked
	for _, c := range circs {
		a, err := k.ask(c)
		if err != nil {
			return err
		}
		defer a.want.Cancel()
		open = append(open, a)
	}
	for _, a := range open {
		if err := k.answered(ctx, a, nil); err != nil {
			return err
		}
	}
	return nil
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
