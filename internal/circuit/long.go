package circuit

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/panics"
)

// longMessage is a message in fragments that a hop is sending
// (docs/spec/pq-circuits.md, section 4): one at a time.
type longMessage struct {
	fragments handshake.Reassembly
	kind      cell.RelayCommand // of what is under way
	overdue   overdue           // until the rest has come
}

// reassemble takes a fragment and returns the message once it is whole, on
// home's reader. The rest of a message must come in time, and before any fragment
// of another one.
func (h *Hop) reassemble(kind cell.RelayCommand, fragment []byte) ([]byte, error) {
	l := &h.long
	began := l.fragments.Pending()
	if began && kind != l.kind {
		return nil, fault.New(fault.Protocol, "%v between the fragments of %v", kind, l.kind)
	}
	msg, err := l.fragments.Add(h.Now(), fragment)
	switch pending := l.fragments.Pending(); {
	case pending && !began:
		l.kind = kind
		h.c.Account().Reserve(handshake.MaxFragmented)
		l.overdue.start(h, "the rest of "+kind.String())
	case began && !pending:
		l.overdue.stop()
		h.c.Account().Release(handshake.MaxFragmented)
	}
	return msg, err
}

// sendMeta sends a message about the circuit, in fragments if the command asks for
// them. early puts it, or its first fragment, into a RELAY_EARLY cell.
func (h *Hop) sendMeta(cmd cell.RelayCommand, msg []byte, early bool) error {
	parts := [][]byte{msg}
	if cmd.Has(cell.Fragment) {
		var err error
		if parts, err = handshake.AppendFragments(nil, msg, h.format.MaxData(false)); err != nil {
			return err
		}
	}
	for i, f := range parts {
		cc := cell.CmdRelay
		if early && i == 0 {
			cc = cell.CmdRelayEarly
		}
		if err := h.sendCell(cc, cmd, 0, f); err != nil {
			return err
		}
	}
	return nil
}

// sendLongLocked sends a message in fragments for a caller that holds the
// circuit's mu: no other cell comes between them and what the caller does next.
func (h *Hop) sendLongLocked(cmd cell.RelayCommand, msg []byte) error {
	parts, err := handshake.AppendFragments(nil, msg, h.format.MaxData(false))
	if err != nil {
		return err
	}
	for _, f := range parts {
		var slot [cell.Len]byte
		if err := h.fill(slot[:], cmd, 0, f); err != nil {
			return err
		}
		h.c.sealLocked(h, slot[:], cell.CmdRelay)
		if err := h.c.home.Load().Send(slot[:]); err != nil {
			return err
		}
		h.c.countSent(1, len(f))
	}
	return nil
}

// overdue ends a circuit when what a peer must send does not come in time.
type overdue struct {
	mu    sync.Mutex  // guards timer; innermost
	timer *time.Timer // nil: nothing is due; tooLate: the circuit has closed
}

// tooLate stands in overdue for a timer that nobody may start any more.
var tooLate = new(time.Timer)

// start gives what a peer began FragmentTimeout to be finished.
func (o *overdue) start(h *Hop, what string) { o.startFor(h, what, handshake.FragmentTimeout) }

// startFor does nothing once the circuit has closed: a timer would keep it.
func (o *overdue) startFor(h *Hop, what string, limit time.Duration) {
	reason := cell.DestroyTimeout
	if h.info.Client {
		reason = cell.DestroyNone
	}
	o.after(h, limit, func() {
		h.c.Close(reason, fault.New(fault.Timeout, "circuit: %s has not come in %v", what, limit))
	})
}

// after runs f, unless stop is called before or the circuit closes.
func (o *overdue) after(h *Hop, d time.Duration, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != tooLate {
		o.timer = time.AfterFunc(d, panics.Contain(h.c.env.Log, nil, f))
	}
}

// stop says that what was begun is there.
func (o *overdue) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopLocked()
}

func (o *overdue) stopLocked() {
	if o.timer != nil && o.timer != tooLate {
		o.timer.Stop()
		o.timer = nil
	}
}

// end says that the circuit has closed.
func (o *overdue) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopLocked()
	o.timer = tooLate
}
