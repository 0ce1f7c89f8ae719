package sidecar

import (
	"context"
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
)

// The times of the node's connections.
const (
	// giveUp is how long the node may be without a connection that it was told to have. It
	// dials about every 35 seconds.
	giveUp = 3 * time.Minute
	// maxOpening bounds connections to onions under way.
	maxOpening = 4
	// callTimeout bounds a call of the node's admin interface, and closing bounds those at the
	// end.
	callTimeout = 10 * time.Second
	closing     = 2 * time.Second
)

// tend opens and closes forwards, and tells the node.
func (s *Sidecar) tend(ctx context.Context, st *state, v view) {
	now := time.Now()
	connected := map[enode.ID]bool{}
	for _, p := range v.peers {
		if id, ok := p.node(); ok {
			connected[id] = true
		}
	}
	s.known.connected(connected, now)
	for id, o := range st.forwards {
		switch {
		case o.lost.Load():
			s.closeForward(st, o, o.seen)
			delete(connected, id) // the node has just ended its end
		case connected[id]:
			o.alive, o.seen = now, true
		case now.Sub(o.alive) > giveUp:
			s.closeForward(st, o, o.seen)
		}
	}
	free := s.cfg.MaxPeers - len(st.forwards) - st.opening
	// A node that is connected already, because it came to this onion, needs no forward.
	for _, c := range s.known.take(max(min(free, maxOpening-st.opening), 0), connected, now) {
		st.opening++
		t := st.session.transport
		go func() {
			f, err := openForward(context.Background(), t, s.known.record(c), s.poke) // the transport's end ends it
			if err != nil {
				s.cfg.Log.Debug("sidecar: an onion does not answer", "err", err)
			}
			st.opened <- &opened{forward: f, c: c}
		}()
	}
	st.healing = s.known.lost(connected, now)
}

// take notes a forward that was opened, or failed, and tells the node.
func (s *Sidecar) take(ctx context.Context, st *state, o *opened) {
	st.opening--
	if o.forward == nil {
		s.known.done(o.c, false, time.Now())
		return
	}
	o.alive = time.Now()
	st.forwards[o.c.id] = o
	// The node may know it from an earlier run of the sidecar, with another port.
	_ = s.call(ctx, st, admin.RemovePeer, o) // it need not know it
	err := s.call(ctx, st, admin.AddPeer, o)
	if st.admin == nil { // it was not told, and would not be when it is back
		s.closeForward(st, o, true)
		return
	}
	if st.refused = err; err != nil {
		s.closeForward(st, o, false)
	}
}

// call tells the node something about a forward. If the node is away, the next step sees
// that.
func (s *Sidecar) call(ctx context.Context, st *state, f func(admin, context.Context, string) error, o *opened) error {
	if st.admin == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := f(st.admin, ctx, o.url())
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		st.admin.Close() // a node that hangs must not hold up each call; the next step connects again
		st.admin = nil
	}
	if err != nil {
		s.cfg.Log.Debug("sidecar: the node's admin interface", "err", err)
	}
	return err
}

// closeForward ends a forward. worked says whether it was any good.
func (s *Sidecar) closeForward(st *state, o *opened, worked bool) {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_ = s.call(ctx, st, admin.RemovePeer, o) // logged; without the port it has nowhere to connect to
	o.Close()
	s.known.done(o.c, worked, time.Now())
	delete(st.forwards, o.c.id)
}

// dropAdmin forgets a node that is away, and the forwards: when it is back, it knows none of
// them.
func (st *state) dropAdmin(s *Sidecar) {
	if st.admin != nil {
		st.admin.Close()
		st.admin = nil
	}
	for _, o := range st.forwards {
		s.closeForward(st, o, true)
	}
}

// endSession closes the onion and the forwards.
func (st *state) endSession(s *Sidecar) {
	for _, o := range st.forwards {
		s.closeForward(st, o, true)
	}
	if st.session == nil {
		return
	}
	s.setBook(nil)
	if err := st.session.close(); err != nil {
		s.cfg.Log.Warn("sidecar: the onion ended", "err", err)
	}
	for st.opening > 0 { // the session's end has ended them
		st.opening--
		o := <-st.opened
		if o.forward != nil {
			o.Close()
		}
		s.known.done(o.c, true, time.Now())
	}
	st.session = nil
	st.later()
}

// end closes everything.
func (st *state) end(s *Sidecar) {
	st.endSession(s)
	st.dropAdmin(s)
}
