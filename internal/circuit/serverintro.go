package circuit

import (
	"crypto/ed25519"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/panics"
)

// HSParams is what the consensus says about onion services to a relay.
type HSParams struct {
	// IntroDefense limits the introductions to each service by Intro, unless the
	// service itself gives other limits.
	IntroDefense bool
	Intro        pace.Limit // INTRODUCE2 messages
	// RefuseSingleHop ignores clients that want a rendezvous point without a relay
	// before it.
	RefuseSingleHop bool
}

func (s *Server) hsParams() HSParams {
	if s.cfg.HS == nil {
		return HSParams{}
	}
	return s.cfg.HS()
}

// hsRole is what a relay's circuit does for an onion service.
type hsRole uint8

// The roles. A circuit never changes its role again.
const (
	hsNone       hsRole = iota
	hsIntroPoint        // the service's circuit, which INTRODUCE2 messages go to
	hsRendezvous        // a client's that waits for RENDEZVOUS1, or one of two that are joined
)

// hsPoints knows the circuits for which this relay is an introduction or rendezvous
// point. Each circuit has at most one entry, so the bound on circuits is the bound on
// entries too.
type hsPoints struct {
	mu    sync.Mutex               // guards what follows
	intro map[[32]byte]*introPoint // by the authentication key
	rend  map[[cell.CookieLen]byte]*Hop
}

// hsPointCost is what an entry counts on its circuit's account, in bytes.
const hsPointCost = 256

// introPoint is a service's circuit to its introduction point.
type introPoint struct {
	h *Hop

	// limit is what the service asked for, if own says so.
	own, limited bool
	limit        pace.Limit

	pace pace.Pace // guarded by hsPoints.mu
}

// becomes gives an ordinary circuit a role, and counts the entry that it gets.
func (c *Circuit) becomes(role hsRole) {
	c.server.hs = role
	c.Account().Reserve(hsPointCost)
}

// ordinary refuses messages of onion services on circuits that do something else: C
// tor wants such circuits to end here and to have no other role.
func (h *Hop) ordinary(cmd cell.RelayCommand) error {
	if h.c.leadsOn() || h.c.server.hs != hsNone || h.set.Load() != nil {
		return fault.New(fault.Protocol, "%v on a circuit that is extended, of a conflux set, or serves an onion service", cmd)
	}
	return nil
}

// MultiHop reports whether the circuit comes from a relay, which has proved who it
// is, and not from the client itself.
func (c *Circuit) MultiHop() bool { return c.Channel().Link().PeerAuthenticated }

// FirstHSDirRequest reports, once, that no request about a descriptor of an onion service came
// on a relay's circuit before.
func (c *Circuit) FirstHSDirRequest() bool { return !c.server.askedHSDir.Swap(true) }

// establishIntro takes ESTABLISH_INTRO from an onion service: this circuit leads to
// the service from now on, and an older one of the same key closes.
func establishIntro(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	if err := h.ordinary(msg.Cmd); err != nil {
		return err
	}
	m, err := cell.ParseEstablishIntro(msg.Data)
	if err != nil {
		return err
	}
	// The MAC first: it costs less, and only the owner of the circuit can make one.
	mac := handshake.HSMAC(h.info.KH[:], m.MACed)
	if subtle.ConstantTimeCompare(mac[:], m.MAC[:]) != 1 {
		return fault.New(fault.Protocol, "ESTABLISH_INTRO: the MAC is wrong")
	}
	if !ed25519.Verify(m.AuthKey[:], append([]byte(cell.EstablishIntroSigPrefix), m.Signed...), m.Sig[:]) {
		return fault.New(fault.Protocol, "ESTABLISH_INTRO: the signature is wrong")
	}
	p := &introPoint{h: h}
	p.ask(m.Exts)
	s := h.c.server.s
	h.c.becomes(hsIntroPoint)
	if old := s.hs.addIntro(m.AuthKey, p); old != nil {
		// On another channel: its reader may hold what closing takes.
		s.wg.Go(panics.Contain(h.c.env.Log, nil, func() {
			old.h.c.Close(cell.DestroyFinished, fault.New(fault.Closed, "circuit: the onion service has made a newer one to its introduction point"))
		}))
	}
	h.c.OnClose(func(error) { s.hs.dropIntro(m.AuthKey, p) })
	answer := cell.IntroEstablished{}
	return fault.Except(fault.Closed, h.Send(cell.RelayIntroEstablished, 0, answer.Append(nil)))
}

// ask takes the limits that the service asks for (proposal 305). As with C tor, zero
// and a burst below the rate mean no limit, and what can't be read asks for nothing.
func (p *introPoint) ask(exts []cell.Ext) {
	body, ok := cell.FindExt(exts, cell.ExtIntroDoS)
	if !ok {
		return
	}
	d, err := cell.ParseIntroDoS(body)
	if err != nil {
		return
	}
	p.own = true
	p.limited = d.RatePerSec > 0 && d.BurstPerSec >= d.RatePerSec
	p.limit = pace.Limit{Rate: float64(d.RatePerSec), Burst: float64(d.BurstPerSec)}
}

// allowLocked reports whether the service may get one more introduction. The caller holds
// hsPoints.mu.
func (p *introPoint) allowLocked(now time.Time, params HSParams) bool {
	limited, limit := params.IntroDefense, params.Intro
	if p.own {
		limited, limit = p.limited, p.limit
	}
	return !limited || p.pace.Allow(now, limit)
}

// introduce1 takes INTRODUCE1 from a client and says in INTRODUCE_ACK what became of
// it. A circuit has one in its life. It stays extendable: a client that is refused
// goes on to another introduction point through this relay.
func introduce1(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	c := h.c
	if err := h.ordinary(msg.Cmd); err != nil {
		return err
	}
	switch {
	case c.server.introduced:
		return fault.New(fault.Protocol, "a second INTRODUCE1")
	case !c.MultiHop():
		return fault.New(fault.Protocol, "INTRODUCE1 on a circuit of one hop")
	}
	c.server.introduced = true
	s := c.server.s
	ack := cell.IntroduceAck{Status: s.introduce(msg.Data)}
	if ack.Status == cell.IntroduceOK {
		s.cfg.Stats.Introductions.Add(1)
	} else {
		s.cfg.Stats.IntroductionsRefused.Add(1)
	}
	return fault.Except(fault.Closed, h.Send(cell.RelayIntroduceAck, 0, ack.Append(nil)))
}

// introduce sends a client's INTRODUCE1 on to the service, as it came. One that would
// not fit CGO's cells is refused also if the service's circuit has other ones: a
// client must not learn which.
func (s *Server) introduce(body []byte) cell.IntroduceStatus {
	m, err := cell.ParseIntroduce(body)
	if err != nil || len(m.Encrypted) == 0 || len(body) > cell.RelayV1.MaxData(false) {
		return cell.IntroduceBadFormat
	}
	to := s.hs.service(m.AuthKey, s.cfg.Env.Now(), s.hsParams())
	if to == nil || to.introsWait() || to.Send(cell.RelayIntroduce2, 0, body) != nil {
		return cell.IntroduceNotRecognized
	}
	return cell.IntroduceOK
}

// maxIntrosWait is how many introductions may wait for the link to a service; more are
// refused. Clients must not be able to end the service's circuit by filling its queue,
// or to make it the one that holds the most memory.
const maxIntrosWait = 512

func (h *Hop) introsWait() bool {
	limit, _ := h.c.env.Queues.limits()
	return h.c.home.Load().Queued() >= min(maxIntrosWait, limit/2)
}

func (p *hsPoints) addIntro(key [32]byte, point *introPoint) (old *introPoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.intro == nil {
		p.intro = map[[32]byte]*introPoint{}
	}
	old = p.intro[key]
	p.intro[key] = point
	return old
}

func (p *hsPoints) dropIntro(key [32]byte, point *introPoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.intro[key] == point { // and not a newer one
		delete(p.intro, key)
	}
}

// service returns the end of a service's circuit, if the service may get one more
// introduction.
func (p *hsPoints) service(key [32]byte, now time.Time, params HSParams) *Hop {
	p.mu.Lock()
	defer p.mu.Unlock()
	point := p.intro[key]
	if point == nil || !point.allowLocked(now, params) {
		return nil
	}
	return point.h
}

// HSPoints returns for how many circuits of onion services this relay is the
// introduction point, and how many circuits of clients wait for a rendezvous.
func (s *Server) HSPoints() (intro, waiting int) {
	s.hs.mu.Lock()
	defer s.hs.mu.Unlock()
	return len(s.hs.intro), len(s.hs.rend)
}
