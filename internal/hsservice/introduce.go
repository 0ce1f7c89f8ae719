package hsservice

import (
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// rendLen is the length of a RENDEZVOUS1 that C tor sends, in bytes: those of
	// both programs look alike.
	rendLen = 168
	// rendIdle is how long a rendezvous circuit without streams is kept, and rendUnused
	// how long one that never had any.
	rendIdle   = 15 * time.Minute
	rendUnused = 2 * time.Minute
	// maxIdle is how many circuits without streams are kept: beyond it, worstIdleLocked says
	// which one is closed.
	maxIdle = 1024
	// extCC asks for congestion control, in an introduction.
	extCC = cell.ExtCCRequest
)

// rendRequest is what an introduction asks for.
type rendRequest struct {
	cookie     [cell.CookieLen]byte
	target     linkspec.Target
	specs      []linkspec.Spec // the target's, as they came
	strange    bool            // the target is not in the consensus
	congestion bool
	inc        int // the SENDME increment, with congestion control
	cgo        bool
	effort     uint32                // of the client's proof of work
	promise    *circuit.OnionPromise // of a ciphertext; nil: there is none
	state      *handshake.HSServerState
	key        replayKey
	epoch      uint64 // of the introduction point
}

// wish is the place that a rendRequest needs.
func (m *rendRequest) wish(through *point) wish { return wish{through, m.strange, m.effort} }

// open opens an introduction, and checks all of it (rend-spec-v3, PROCESS_INTRO2).
func (s *Service) open(p *point, body []byte, now time.Time) (*rendRequest, error) {
	m, err := cell.ParseIntroduce(body)
	if err != nil {
		return nil, err
	}
	if m.AuthKey != p.id() {
		return nil, fault.New(fault.Protocol, "the introduction is for another introduction point")
	}
	subcreds, blinded, err := s.secrets(p)
	if err != nil {
		return nil, err
	}
	st, plain, err := handshake.HSNtorOpen(p.enc, p.id(), subcreds, m.Header, m.Encrypted)
	if err != nil {
		return nil, err
	}
	in, err := cell.ParseIntroducePlaintext(plain)
	if err != nil {
		return nil, err
	}
	out := &rendRequest{cookie: in.Cookie, state: st, key: replayKeyOf(m.Encrypted), epoch: p.epoch}
	if out.target, out.specs, err = s.rendezvousPoint(&in); err != nil {
		return nil, err
	}
	out.strange = !s.cfg.Network.Knows(&out.target)
	if _, out.congestion = cell.FindExt(in.Exts, extCC); out.congestion {
		if out.inc = p.inc; out.inc == 0 {
			return nil, fault.New(fault.Protocol, "the client asks for congestion control, which this service does not offer")
		}
	}
	if out.cgo, err = s.cgoRequested(in.Exts, out.congestion); err != nil {
		return nil, err
	}
	if out.promise, err = s.promised(in.Exts); err != nil {
		return nil, err
	}
	if err := s.isNew(p, out, now); err != nil {
		return nil, err
	}
	if s.asksWork() {
		var of ident.Ed25519ID // the key that the proof is for: of the descriptor that the client has
		if i := st.Subcredential(); i < len(blinded) {
			of = blinded[i]
		}
		out.effort, err = s.work.effortOf(in.Exts, &of, now, s.opening)
	}
	return out, err
}

// cgoRequested reports whether a client asks for counter galois onion. The hop has what
// was asked for, or there is none: a client could not learn of anything else.
func (s *Service) cgoRequested(exts []cell.Ext, congestion bool) (wanted bool, err error) {
	seen := false
	for _, x := range exts {
		if x.Type != cell.ExtSubprotoRequest {
			continue
		}
		if seen {
			return false, fault.New(fault.Protocol, "the client sends two subprotocol requests")
		}
		seen = true
		if wanted, err = circuit.CGORequested(x.Body); err != nil {
			return false, err
		}
	}
	switch {
	case wanted && !s.cfg.CGO:
		return false, fault.New(fault.Protocol, "the client asks for CGO, which this service does not offer")
	case wanted && !congestion:
		return false, fault.New(fault.Protocol, "the client asks for CGO without congestion control")
	}
	return wanted, nil
}

// secrets returns what an introduction through a point may be encrypted with, and the
// blinded keys of the first ones.
func (s *Service) secrets(p *point) (subcreds [][32]byte, blinded []ident.Ed25519ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.introsLeft <= -maxIntros {
		return nil, nil, fault.New(fault.Resource, "the introduction point has served too many introductions")
	}
	return s.introSecretsLocked(), s.blinded, nil
}

// isNew refuses an introduction that was there before.
func (s *Service) isNew(p *point, m *rendRequest, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isNewLocked(p, m, now)
}

func (s *Service) isNewLocked(p *point, m *rendRequest, now time.Time) error {
	if p.replayed.knows(m.key) {
		return fault.New(fault.Protocol, "the introduction was there before")
	}
	if s.cookies.knows(m.cookie, now) {
		return fault.New(fault.Protocol, "the rendezvous cookie was there before")
	}
	return nil
}

// accept refuses an introduction that was there before, or for which there is no place.
// It remembers the others, and counts them against their point's life: a flood of others
// must not wear out one point after the other.
func (s *Service) accept(p *point, m *rendRequest, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.epoch < s.least {
		return errRevoked
	}
	if err := s.isNewLocked(p, m, now); err != nil {
		return err
	}
	if _, wait := s.placeLocked(m.wish(p), now); wait > 0 {
		return errNoPlace
	}
	p.replayed.add(m.key)
	s.cookies.add(m.cookie, now)
	if p.introsLeft--; p.introsLeft == 0 {
		s.kick() // to be replaced
	}
	return nil
}

// rendezvousPoint reads whom the client waits at. A client must not make a service
// connect, through its last relay, to what only that relay can reach.
func (s *Service) rendezvousPoint(in *cell.IntroducePlaintext) (linkspec.Target, []linkspec.Spec, error) {
	r := bin.NewReader("link specifiers", in.Specs)
	specs := linkspec.Read(&r)
	if err := r.End(); err != nil {
		return linkspec.Target{}, nil, err
	}
	t, err := linkspec.TargetOf(specs)
	if err != nil {
		return linkspec.Target{}, nil, err
	}
	if t.Ed.IsZero() {
		return linkspec.Target{}, nil, fault.New(fault.Protocol, "the rendezvous point has no Ed25519 identity")
	}
	if hscrypto.SmallOrder(in.Onion) { // zeros, too: there is none
		return linkspec.Target{}, nil, fault.New(fault.Protocol, "the rendezvous point has no onion key that can be used")
	}
	for _, a := range t.Addrs {
		if !s.cfg.Network.Testing() && !netaddr.Public(a.Addr()) {
			return linkspec.Target{}, nil, fault.New(fault.Protocol, "the rendezvous point has a private address")
		}
	}
	t.Ntor = in.Onion
	return t, specs, nil
}

// clientCircuit is a circuit that joins a client.
type clientCircuit struct {
	number uint64
	idle   time.Time    // since; zero while there are streams
	used   atomic.Bool  // it had a stream
	effort uint32       // of the client's proof of work
	open   atomic.Int64 // streams
	epoch  uint64       // of the introduction point
	shut   time.Time    // when its streams were ended, since the client may be one who must not come any more
}

// handshakeAnswer is the service's part of a handshake, and its keys.
type handshakeAnswer struct {
	reply []byte
	keys  handshake.KeyStream
	err   error
}

// answering makes the answer to the client's handshake while the circuit to the client is
// built. The channel receives once.
func (s *Service) answering(m *rendRequest) <-chan handshakeAnswer {
	out := make(chan handshakeAnswer, 1)
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(err error) { out <- handshakeAnswer{err: err} })
		reply, keys, err := m.state.Reply(rand.Reader)
		out <- handshakeAnswer{reply, keys, err}
	})
	return out
}

// join answers the client's handshake. The virtual hop is there before the answer
// leaves: the client may send at once.
func (s *Service) join(c *circuit.Circuit, number uint64, m *rendRequest, answer handshakeAnswer) error {
	if answer.err != nil {
		return answer.err
	}
	at := c.Last()
	params, _ := s.cfg.Network.Flow()
	v := circuit.VirtualHop{Keys: answer.keys, Service: true, Streams: s, Flow: params, Path: flow.PathOnion, Promise: m.promise}
	if s.cfg.Single {
		v.Path = flow.PathExit // as long as a circuit to an exit
	}
	if m.congestion {
		v.SendmeInc, v.CGO = m.inc, m.cgo
	}
	if _, err := c.AddVirtualHop(v); err != nil {
		return err
	}
	r := &clientCircuit{number: number, idle: time.Now(), effort: m.effort, epoch: m.epoch}
	if !s.addClient(c, r) {
		return errClosed
	}
	s.removeClientAtEnd(c)
	msg := cell.Rendezvous1{Cookie: m.cookie, Handshake: answer.reply}
	body := msg.Append(make([]byte, 0, rendLen))
	pad := len(body)
	body = body[:rendLen]
	_, _ = rand.Read(body[pad:]) // never fails (crypto/rand)
	return at.Send(cell.RelayRendezvous1, 0, body)
}

// addClient notes a circuit that joins a client; false if the service is closed, or the client
// may have been removed.
func (s *Service) addClient(c *circuit.Circuit, r *clientCircuit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || r.epoch < s.least {
		return false
	}
	s.clients[c] = r
	s.boundIdleLocked()
	return true
}

// removeClientAtEnd notes the end of a circuit that joins a client.
func (s *Service) removeClientAtEnd(c *circuit.Circuit) {
	c.OnClose(func(error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, c)
	})
}

// closeUnusedLocked closes circuits that no client uses any more.
func (s *Service) closeUnusedLocked(now time.Time) {
	for c, r := range s.clients {
		switch {
		case r.open.Load() > 0:
			r.idle = time.Time{}
		case r.idle.IsZero():
			r.idle = now
		case now.Sub(r.idle) >= rendIdle, !r.used.Load() && now.Sub(r.idle) >= rendUnused:
			s.destroy(c)
		}
	}
}

// boundIdleLocked closes an idle circuit if there are too many: an introduction costs a
// client little, and a circuit that waits costs memory here and at the relays.
func (s *Service) boundIdleLocked() {
	if c := s.worstIdleLocked(maxIdle); c != nil {
		delete(s.clients, c) // it closes in a moment, and is not chosen twice
		s.destroy(c)
	}
}

// worstIdleLocked returns, if more than most circuits are idle, the one that has been so for
// the longest time. Those whose clients have done as much work as is suggested are the last
// to go. A greater effort counts for no more: else clients that do nothing, because nothing
// is suggested, would make room for an attacker that does a little.
func (s *Service) worstIdleLocked(most int) (worst *circuit.Circuit) {
	if len(s.clients) <= most {
		return nil
	}
	n := 0
	var since time.Time
	cheap, suggested := false, s.work.suggested()
	for c, r := range s.clients {
		if r.open.Load() > 0 || r.idle.IsZero() {
			continue
		}
		n++
		if is := r.effort < suggested; worst == nil || is && !cheap || is == cheap && r.idle.Before(since) {
			worst, since, cheap = c, r.idle, is
		}
	}
	if n <= most {
		return nil
	}
	return worst
}
