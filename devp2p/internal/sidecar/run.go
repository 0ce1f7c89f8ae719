package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// Run runs until ctx ends. A node that is away, or an onion that cannot be opened, is no
// error: Run reports it and tries again.
func (s *Sidecar) Run(ctx context.Context) error {
	st := &state{opened: make(chan *opened), forwards: map[enode.ID]*opened{}}
	defer st.end(s)
	next := time.NewTimer(0)
	defer next.Stop()
	watch := time.NewTicker(s.cfg.watchEvery)
	defer watch.Stop()
	soon := false // next is set to stepSoon
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-st.opened:
			s.take(ctx, st, o)
		case <-watch.C:
			if s.watch(st) {
				next.Reset(0)
			}
		case <-s.poked:
			if !soon {
				soon = true
				next.Reset(min(s.cfg.Every, stepSoon))
			}
		case <-next.C:
			soon = false
			st.healing = false
			s.step(ctx, st)
			if st.healing {
				next.Reset(min(s.cfg.Every, retryLost))
			} else {
				next.Reset(s.cfg.Every)
			}
		}
	}
}

// stepSoon is when Run looks at the node after a connection ended. Until then the node knows
// of it. Others can end connections as often as they like, so it is also the shortest time
// between two looks.
const stepSoon = 500 * time.Millisecond

// poke makes Run look at the node soon.
func (s *Sidecar) poke() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// state is what Run has open.
type state struct {
	admin    admin
	watched  watched
	face     face
	session  *session
	retry    time.Time     // when a session may be started again
	wait     time.Duration // between starts that fail
	forwards map[enode.ID]*opened
	healing  bool         // a node that was connected a moment ago is missing
	refused  error        // the node's answer when it was last told of another; nil: it took it
	opening  int          // connections to onions under way
	opened   chan *opened // what came of them
}

// opened is a forward and what became of it.
type opened struct {
	*forward
	c     *candidate
	alive time.Time // when the node last had the connection, or the forward was opened
	seen  bool      // the node has had it
}

// step looks at the node once, and does what follows.
func (s *Sidecar) step(ctx context.Context, st *state) {
	status := Status{}
	defer func() { s.report(st, status) }()
	v, err := s.view(ctx, st)
	if err != nil {
		if ctx.Err() == nil {
			status.Problem = fmt.Sprintf("the node does not answer at %v: %v", s.at, err)
		}
		s.setTarget("")
		st.dropAdmin(s)
		return
	}
	status.Node, status.Leaks = true, look(v)
	if s.cfg.OnlyOnion && len(status.Leaks) > 0 {
		st.endSession(s)
		return
	}
	status.Private = s.cfg.OnlyOnion
	if err := s.follow(ctx, st, v); err != nil {
		status.Problem = err.Error()
	} else if st.refused != nil {
		status.Problem = fmt.Sprintf("the node refuses to be told of others, who have to come to the onion: %v", st.refused)
	}
}

// view asks the node, after connecting to it if need be.
func (s *Sidecar) view(ctx context.Context, st *state) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if st.admin == nil {
		if st.admin, err = s.cfg.connect(ctx, s.at); err != nil {
			st.admin = nil
			return v, err
		}
		st.refused = nil
	}
	if v.info, err = st.admin.Info(ctx); err != nil {
		return v, err
	}
	if v.peers, err = st.admin.Peers(ctx); err != nil {
		return v, err
	}
	if v.port = s.cfg.P2PPort; v.port == 0 {
		v.port = listenPort(v.info)
	}
	if s.cfg.OnlyOnion {
		s.see(st, &v)
	}
	return v, nil
}

// follow keeps the session and the forwards as the node needs them.
func (s *Sidecar) follow(ctx context.Context, st *state, v view) error {
	if v.port == 0 {
		return errors.New("the node listens on no port: geth must not be started with --port 0 or --maxpeers 0")
	}
	s.setTarget(fmt.Sprintf("127.0.0.1:%d", v.port))
	f, err := faceOf(v.info)
	if err != nil {
		return err
	}
	if st.session != nil && (st.face.id != f.id || st.session.ended()) {
		st.endSession(s)
	}
	if st.session == nil {
		if time.Now().Before(st.retry) {
			return errors.New("the onion ended; it is opened again soon")
		}
		if st.session, err = s.start(f); err != nil {
			st.later()
			return err
		}
		st.face = f
	} else if n := st.session.manager.Self(); n != nil && tellsOnion(n) {
		st.wait = 0
	}
	s.tend(ctx, st, v)
	return nil
}

// tellsOnion reports whether a record has an onion: then the service is published.
func tellsOnion(n *enode.Node) bool {
	_, _, err := devp2p.OnionOf(n)
	return err == nil
}

// later puts the next start off.
func (st *state) later() {
	st.wait = min(max(2*st.wait, time.Second), time.Minute)
	st.retry = time.Now().Add(st.wait)
}

func (s *Sidecar) setTarget(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = addr
}

func (s *Sidecar) node() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target
}
