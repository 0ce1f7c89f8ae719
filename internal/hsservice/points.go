package hsservice

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
)

// The life of introduction points. The consensus may set minIntros and maxIntros.
const (
	minIntros, maxIntros = 16384, 32768 // as C tor
	// maxReplays is how many introductions a point remembers before it is replaced, whatever
	// the consensus says: 8 MB of them. Those that come meanwhile, maxIntros at most, are
	// remembered, too.
	maxReplays = 4 * maxIntros

	// launchWindow is the time in which mayLaunch counts circuits to introduction points.
	launchWindow = 5 * time.Minute
	// pointRetries is how often a circuit to the same point is built again when it
	// was lost: the descriptor stays true then.
	pointRetries = 3
	// retirement is how long a replaced point stays after the new descriptor is out:
	// clients may have the old one.
	retirement = 10 * time.Minute
	// revokedLife bounds how long a point stays that somebody knows who must not, if the new
	// descriptor cannot be brought out.
	revokedLife = 2 * time.Minute
	// pointTimeout bounds the time to build a circuit and hear INTRO_ESTABLISHED; with Config.Limit, that until
	// there is a link, or a circuit that only has to be extended.
	pointTimeout = time.Minute
	// pointPause is the time between the failure of a circuit and the next launch.
	pointPause = time.Second
	// extraPoints is how many more points than wanted are launched when there is none: the
	// first that stand are kept, so that one slow relay does not delay the descriptor. It is
	// the default of the consensus's parameter hs_intro_num_extra.
	extraPoints = 2
	// pointHops is the length of circuits to introduction points.
	pointHops = 4
)

// point is an introduction point. The service's mutex guards all but the keys.
type point struct {
	of   *descriptor // the one that names it. Constant
	auth ed25519.PrivateKey
	enc  *handshake.NtorKeyPair
	inc  int // the SENDME increment that its clients know from descriptors; zero: no congestion control. Constant

	target     linkspec.Target  // zero until the first circuit is there
	circ       *circuit.Circuit // not nil when established
	building   bool
	asked      ident.RSAID        // the relay of the launch that is under way, once it is asked
	cancel     context.CancelFunc // of the launch that is under way
	retries    int
	expires    time.Time
	introsLeft int
	replayed   replays
	renew      bool      // replaced before its time
	revoked    time.Time // since when somebody knows it who must not: it ends when the descriptor does not name it; zero: no
	epoch      uint64    // of its clients (revoke.go). Constant
	replaced   bool      // not in the next descriptor
	outSince   time.Time // when the descriptor was out without it; zero: not yet
}

// old reports whether another point must take this one's place.
func (p *point) old(now time.Time) bool {
	return p.renew || !now.Before(p.expires) || p.introsLeft <= 0
}

func (p *point) id() ident.Ed25519ID { return cert.IdentityOf(p.auth) }

// newPoint makes a point that lives as long as the consensus's parameters say, by param, which
// may be nil, or else as C tor's.
func newPoint(now time.Time, param netParam) (*point, error) {
	_, auth, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	enc, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		return nil, err
	}
	life := time.Duration(param.between("lifetime", 18*3600, 24*3600)) * time.Second
	return &point{auth: auth, enc: enc, expires: now.Add(life), introsLeft: min(param.between("introduce2", minIntros, maxIntros), maxReplays)}, nil
}

// netParam is netdir.Directory.Param.
type netParam func(name string, def, lo, hi int32) int32

// between returns a number between two parameters about introduction points.
func (p netParam) between(what string, lo, hi int32) int {
	if p != nil {
		lo = p("hs_intro_min_"+what, lo, 0, math.MaxInt32)
		hi = max(lo, p("hs_intro_max_"+what, hi, 0, math.MaxInt32))
	}
	return int(int64(lo) + random(int64(hi)-int64(lo)+1))
}

// random returns a number from 0 to n-1.
func random(n int64) int64 {
	v, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return v.Int64()
}

// tendPointsLocked retires old points, and launches those that are missing.
func (s *Service) tendPointsLocked(now time.Time) (wait time.Duration) {
	if s.fleet != nil && s.fleet.pointless {
		return s.shutOutLocked(now)
	}
	var end []*circuit.Circuit
	s.points = slices.DeleteFunc(s.points, func(p *point) bool {
		over := !p.outSince.IsZero() && now.Sub(p.outSince) >= retirement || p.revokedOut(now)
		if over && p.circ != nil {
			end = append(end, p.circ)
		}
		return over
	})
	for _, c := range end {
		s.destroy(c)
	}
	wait = s.shutOutLocked(now)
	for _, x := range s.descs {
		wait = min(wait, s.tendPointsOfLocked(x, now))
	}
	return wait
}

// tendPointsOfLocked is tendPointsLocked for the points of one descriptor. As C tor's, each descriptor has points of its own,
// so that nothing at a relay, and nothing in the descriptors, says which two are of one service.
func (s *Service) tendPointsOfLocked(x *descriptor, now time.Time) (wait time.Duration) {
	wait = longest
	all, good, standing, want := 0, 0, 0, s.live.Load().IntroductionPoints
	for _, p := range s.points {
		if p.of != x {
			continue
		}
		all++
		switch {
		case p.replaced:
		case p.old(now):
			// It stays, and in the descriptor, until its successor is there.
			p.replaced = s.establishedLocked(x) > want
		case p.circ != nil && standing >= want:
			p.replaced = true // fewer are wanted than before
		default:
			good++
			if p.circ != nil {
				standing++
			}
		}
	}
	x.noteStanding(s.establishedLocked(x), want, now)
	if all == 0 {
		want += s.extra
	}
	if good < want {
		if wait := s.unseenLocked(x, now); wait > 0 {
			return wait
		}
	}
	for ; good < want; good++ {
		if now.Before(s.notBefore) {
			return s.notBefore.Sub(now)
		}
		p, err := newPoint(now, s.param)
		if err != nil {
			s.problem = err
			return wait
		}
		p.of, p.inc, p.epoch = x, s.inc, s.epoch
		if !s.mayLaunchLocked(now) {
			break
		}
		s.points = append(s.points, p)
		s.launchLocked(p, now)
	}
	return wait
}

// establishedLocked counts the points of a descriptor that are in use and shall stay so.
func (s *Service) establishedLocked(x *descriptor) int {
	n := 0
	for _, p := range s.points {
		if p.of == x && p.circ != nil && !p.replaced {
			n++
		}
	}
	return n
}

// mayLaunchLocked counts a launch, if the budget has room for it: in launchWindow, all points of both descriptors may be
// made with their retries.
func (s *Service) mayLaunchLocked(now time.Time) bool {
	s.launches = slices.DeleteFunc(s.launches, func(t time.Time) bool { return now.Sub(t) >= launchWindow })
	if n := max(DefaultPoints, s.live.Load().IntroductionPoints); len(s.launches) >= 2*(n+s.extra+pointRetries*n) {
		return false
	}
	s.launches = append(s.launches, now)
	return true
}

// launchLocked begins a circuit to a point.
func (s *Service) launchLocked(p *point, now time.Time) {
	p.building, p.asked = true, ident.RSAID{}
	spec := path.Spec{Hops: pointHops, Stable: true, NeedExit: []path.Capability{path.Introduction}}
	for _, o := range s.points {
		if p.rivals(o, now) {
			spec.ExcludeExit = append(spec.ExcludeExit, o.target.RSA)
		}
	}
	again, avoid := p.target, p.of.avoid(now)
	ctx, cancel := s.limit(s.ctx, cbt.IntroEstablished, pointTimeout, errPointTimeout)
	p.cancel = cancel
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(err error) { s.pointEnded(p, nil, err) })
		defer cancel()
		c, err := s.establish(ctx, p, again, spec, avoid)
		if err != nil {
			s.log.Debug("introduction point", "err", err)
			s.pointEnded(p, nil, err)
			return
		}
		s.pointStands(p, c)
	})
}

var (
	errPointTimeout = fault.New(fault.Timeout, "the introduction point did not answer in time")
	errSurplus      = fault.New(fault.Closed, "other introduction points were there earlier")
)

// establish builds the circuit and makes its last relay an introduction point
// (rend-spec-v3, REG_INTRO_POINT): the one that it was before, or one that fits spec and, if there is such a one, is
// none of those to avoid.
func (s *Service) establish(ctx context.Context, p *point, again linkspec.Target, spec path.Spec, avoid []ident.RSAID) (c *circuit.Circuit, err error) {
	began := time.Now()
	if again.RSA.IsZero() {
		c, err = s.buildAround(ctx, spec, avoid)
	} else {
		c, _, err = s.cfg.Network.To(ctx, again, nil)
	}
	if err != nil {
		return nil, err
	}
	if !s.mayRegister(p, lastTarget(c).RSA) {
		s.surplus(c, began, again.RSA.IsZero())
		return nil, errSurplus
	}
	if err := s.register(ctx, p, c); err != nil {
		closeCircuit(c)
		return nil, err
	}
	return c, nil
}

// surplus ends a circuit that is not needed, or gives it away if it was built for any relay.
func (s *Service) surplus(c *circuit.Circuit, began time.Time, anywhere bool) {
	if anywhere && s.cfg.Spare != nil {
		s.cfg.Spare(c, began)
		return
	}
	closeCircuit(c)
}

// mayRegister reports whether a point whose circuit to a relay is there is still wanted, and drops it if not. More are launched
// than are wanted, and two at one time may choose the same relay: only so many ask their relays, as C tor's do, so that
// no relay hears of a point that never is one.
func (s *Service) mayRegister(p *point, relay ident.RSAID) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n, double := 0, false
	for _, o := range s.points {
		if o != p && o.of == p.of && (!o.asked.IsZero() || o.circ != nil) && !o.replaced && !o.old(now) {
			n++
			double = double || o.asked == relay
		}
	}
	if !slices.Contains(s.points, p) || p.target.RSA.IsZero() && (double || n >= s.live.Load().IntroductionPoints) {
		s.removeLocked(p)
		s.kick()
		return false
	}
	p.asked = relay
	return true
}

func (s *Service) register(ctx context.Context, p *point, c *circuit.Circuit) error {
	h := c.Last()
	m := cell.EstablishIntro{AuthKey: p.id(), Exts: s.introExts(lastTarget(c))}
	kh := h.Info().KH
	m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
	m.Sig = [64]byte(ed25519.Sign(p.auth, m.AppendSigned([]byte(cell.EstablishIntroSigPrefix))))
	want, err := h.Expect(cell.RelayIntroEstablished)
	if err != nil {
		return err
	}
	// An introduction may be right behind the answer.
	h.Handle(cell.RelayIntroduce2, func(m cell.RelayMsg) error { return s.queueIntroduce2(p, c.Account(), m.Data) })
	if err := h.Send(cell.RelayEstablishIntro, 0, m.Append(nil)); err != nil {
		want.Cancel()
		return err
	}
	_, body, err := want.Wait(ctx)
	if err != nil {
		return err
	}
	_, err = cell.ParseIntroEstablished(body)
	return err
}

// pointStands takes over a circuit to a point, and follows it. It may have ended already: then the
// point is lost at once.
func (s *Service) pointStands(p *point, c *circuit.Circuit) {
	if !s.isEstablished(p, c) {
		closeCircuit(c)
		return
	}
	c.OnClose(func(cause error) { s.pointEnded(p, c, cause) })
}

// isEstablished notes a circuit to a point; false if the point is not needed.
func (s *Service) isEstablished(p *point, c *circuit.Circuit) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	target := *lastTarget(c)
	// Two launches at one time may choose the same relay, and more are launched than wanted.
	double := slices.ContainsFunc(s.points, func(o *point) bool { return p.rivals(o, now) && o.target.RSA == target.RSA })
	if !slices.Contains(s.points, p) || double || p.target.RSA.IsZero() && s.enoughLocked(p.of, now) {
		s.removeLocked(p)
		s.kick()
		return false
	}
	p.building, p.circ, p.target = false, c, target
	s.dropSurplusLocked(p.of, now)
	if p.of.since.IsZero() {
		p.of.since = now
	}
	p.of.lacks = false
	p.of.noteChoiceLocked(target.RSA, now)
	p.replayed.on = c.Account()
	c.Account().Reserve(replayCost * len(p.replayed.seen)) // of the circuit before
	s.log.Debug("introduction point established", "relay", p.target.RSA)
	s.kick()
	return true
}

// pointEnded notes that the circuit to a point failed or ended; c is nil if it never was.
func (s *Service) pointEnded(p *point, c *circuit.Circuit, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.kick()
	if s.closed || p.circ != c || !slices.Contains(s.points, p) {
		return
	}
	now := time.Now()
	p.circ, p.building, p.asked = nil, false, ident.RSAID{}
	s.problem = fault.New(fault.KindOf(cause), "introduction point: %w", cause)
	known := !p.target.RSA.IsZero()
	if known && !p.replaced && p.retries < pointRetries && !p.renew && now.Before(p.expires) && s.mayLaunchLocked(now) {
		p.retries++
		s.launchLocked(p, now)
		return
	}
	if known && !p.old(now) {
		p.of.noteFailed(p.target.RSA, now)
	}
	p.of.lacks = p.of.lacks || errors.Is(cause, path.ErrNone)
	s.notBefore = now.Add(pointPause)
	s.removeLocked(p)
}

func (s *Service) removeLocked(p *point) {
	s.points = slices.DeleteFunc(s.points, func(o *point) bool { return o == p })
}

// dropSurplusLocked ends the launches that are not needed, once enough points of a descriptor stand. With Config.Spare they go on:
// their circuits are of use as such.
func (s *Service) dropSurplusLocked(x *descriptor, now time.Time) {
	if !s.enoughLocked(x, now) {
		return
	}
	for _, p := range slices.Clone(s.points) {
		if p.of == x && p.building && p.target.RSA.IsZero() {
			s.removeLocked(p)
			if s.cfg.Spare == nil {
				p.cancel()
			}
		}
	}
}

// enoughLocked reports whether as many points of a descriptor stand as are wanted, without the old ones.
func (s *Service) enoughLocked(x *descriptor, now time.Time) bool {
	n := 0
	for _, p := range s.points {
		if p.of == x && p.circ != nil && !p.replaced && !p.old(now) {
			n++
		}
	}
	return n >= s.live.Load().IntroductionPoints
}

// introPointsLocked returns the points that the next descriptor of x's period names, the old ones last.
func (s *Service) introPointsLocked(x *descriptor, now time.Time) (out []netdoc.HSIntroPoint) {
	points := slices.Clone(s.points)
	slices.SortStableFunc(points, func(a, b *point) int {
		switch old := a.old(now); {
		case old == b.old(now):
			return 0
		case old:
			return 1
		}
		return -1
	})
	for _, p := range points {
		if p.of != x || p.replaced || p.target.RSA.IsZero() || p.circ == nil && !p.building {
			continue
		}
		out = append(out, netdoc.HSIntroPoint{Specs: p.target.Specs(), Onion: p.target.Ntor, Auth: p.id(), Enc: p.enc.Public()})
	}
	return out
}

func closeCircuit(c *circuit.Circuit) { c.Close(cell.DestroyNone, ErrDone) }
