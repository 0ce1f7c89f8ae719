package hsservice

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"math/big"
	"slices"
	"time"

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

// The life of introduction points; the numbers are C tor's.
const (
	minPointLife, maxPointLife = 18 * time.Hour, 24 * time.Hour
	minIntros, maxIntros       = 16384, 32768

	// launchWindow is the time in which at most maxLaunches circuits to introduction
	// points are begun.
	launchWindow = 5 * time.Minute
	maxLaunches  = 28
	// pointRetries is how often a circuit to the same point is built again when it
	// was lost: the descriptor stays true then.
	pointRetries = 3
	// retirement is how long a replaced point stays after the new descriptor is out:
	// clients may have the old one.
	retirement = 10 * time.Minute
	// pointTimeout bounds the time to build a circuit and hear INTRO_ESTABLISHED.
	pointTimeout = time.Minute
	// pointPause is the time between the failure of a circuit and the next launch.
	pointPause = time.Second
	// pointHops is the length of circuits to introduction points.
	pointHops = 4
)

// point is an introduction point. The service's mutex guards all but the keys.
type point struct {
	auth ed25519.PrivateKey
	enc  *handshake.NtorKeyPair

	target     linkspec.Target  // zero until the first circuit is there
	circ       *circuit.Circuit // not nil when established
	building   bool
	retries    int
	expires    time.Time
	introsLeft int
	replayed   replays
	replaced   bool                 // not in the next descriptor
	outSince   time.Time            // when the descriptors of all periods were out without it; zero: not yet
	outOf      map[*descriptor]bool // those that are out without it
}

func (p *point) id() ident.Ed25519ID { return cert.IdentityOf(p.auth) }

func newPoint(now time.Time) (*point, error) {
	_, auth, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	enc, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		return nil, err
	}
	life := minPointLife + time.Duration(random(int64(maxPointLife-minPointLife)))
	return &point{auth: auth, enc: enc, expires: now.Add(life), introsLeft: minIntros + int(random(maxIntros-minIntros))}, nil
}

// random returns a number from 0 to n-1.
func random(n int64) int64 {
	v, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return v.Int64()
}

// tendPoints retires old points, and launches those that are missing.
func (s *Service) tendPoints(now time.Time) (wait time.Duration) {
	wait = longest
	var end []*circuit.Circuit
	s.points = slices.DeleteFunc(s.points, func(p *point) bool {
		over := !p.outSince.IsZero() && now.Sub(p.outSince) >= retirement
		if over && p.circ != nil {
			end = append(end, p.circ)
		}
		return over
	})
	for _, c := range end {
		s.closeSoon(c)
	}
	good := 0
	for _, p := range s.points {
		if p.replaced {
			continue
		}
		if !now.Before(p.expires) || p.introsLeft <= 0 {
			// The old one stays, and in the descriptor, until its successor is there.
			if s.establishedLocked() > s.cfg.Points {
				p.replaced = true
			}
			continue
		}
		good++
	}
	for ; good < s.cfg.Points; good++ {
		if now.Before(s.notBefore) {
			return s.notBefore.Sub(now)
		}
		p, err := newPoint(now)
		if err != nil {
			s.problem = err
			return wait
		}
		if !s.mayLaunch(now) {
			break
		}
		s.points = append(s.points, p)
		s.launch(p, now)
	}
	return wait
}

// establishedLocked counts the points that are in use and shall stay so.
func (s *Service) establishedLocked() int {
	n := 0
	for _, p := range s.points {
		if p.circ != nil && !p.replaced {
			n++
		}
	}
	return n
}

// mayLaunch counts a launch, if the budget has room for it.
func (s *Service) mayLaunch(now time.Time) bool {
	s.launches = slices.DeleteFunc(s.launches, func(t time.Time) bool { return now.Sub(t) >= launchWindow })
	if len(s.launches) >= maxLaunches {
		return false
	}
	s.launches = append(s.launches, now)
	return true
}

// launch begins a circuit to a point.
func (s *Service) launch(p *point, now time.Time) {
	p.building = true
	spec := path.Spec{Hops: pointHops, Stable: true, NeedExit: []path.Capability{path.Introduction}}
	for _, o := range s.points {
		if o != p && !o.target.RSA.IsZero() {
			spec.ExcludeExit = append(spec.ExcludeExit, o.target.RSA)
		}
	}
	again := p.target
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(err error) { s.lost(p, nil, err) })
		ctx, cancel := context.WithTimeoutCause(s.ctx, pointTimeout, errPointTimeout)
		defer cancel()
		c, err := s.establish(ctx, p, again, spec)
		if err != nil {
			s.log.Debug("introduction point", "err", err)
			s.lost(p, nil, err)
			return
		}
		if !s.isEstablished(p, c) {
			closeCircuit(c)
			return
		}
		c.OnClose(func(cause error) { s.lost(p, c, cause) })
	})
}

var errPointTimeout = fault.New(fault.Timeout, "the introduction point did not answer in time")

// establish builds the circuit and makes its last relay an introduction point
// (rend-spec-v3, REG_INTRO_POINT): the one that it was before, or one that fits spec.
func (s *Service) establish(ctx context.Context, p *point, again linkspec.Target, spec path.Spec) (c *circuit.Circuit, err error) {
	if again.RSA.IsZero() {
		c, _, err = s.cfg.Circuits.Build(ctx, spec)
	} else {
		c, _, err = s.cfg.Circuits.To(ctx, again, nil)
	}
	if err != nil {
		return nil, err
	}
	if err := s.register(ctx, p, c); err != nil {
		closeCircuit(c)
		return nil, err
	}
	return c, nil
}

func (s *Service) register(ctx context.Context, p *point, c *circuit.Circuit) error {
	h := c.Last()
	m := cell.EstablishIntro{AuthKey: p.id()}
	kh := h.Info().KH
	m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
	m.Sig = [64]byte(ed25519.Sign(p.auth, m.AppendSigned([]byte(cell.EstablishIntroSigPrefix))))
	want, err := h.Expect(cell.RelayIntroEstablished)
	if err != nil {
		return err
	}
	// An introduction may be right behind the answer.
	h.Handle(cell.RelayIntroduce2, func(m cell.RelayMsg) error { return s.introduced(p, m.Data) })
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

// isEstablished takes over a circuit to a point; false if the service was closed.
func (s *Service) isEstablished(p *point, c *circuit.Circuit) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || c.Err() != nil {
		p.building = false
		s.kick()
		return false
	}
	target := c.Last().Info().Target
	if slices.ContainsFunc(s.points, func(o *point) bool { return o != p && o.target.RSA == target.RSA && !o.replaced }) {
		// Two launches at one time chose the same relay.
		s.points = slices.DeleteFunc(s.points, func(o *point) bool { return o == p })
		s.kick()
		return false
	}
	p.building, p.circ, p.target = false, c, target
	if s.since.IsZero() {
		s.since = now
	}
	p.replayed.on = c.Account()
	c.Account().Reserve(replayCost * len(p.replayed.seen)) // of the circuit before
	s.log.Debug("introduction point established", "relay", p.target.RSA)
	s.kick()
	return true
}

// lost notes that the circuit to a point failed or ended; c is nil if it never was.
func (s *Service) lost(p *point, c *circuit.Circuit, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.kick()
	if s.closed || p.circ != c || !slices.Contains(s.points, p) {
		return
	}
	now := time.Now()
	p.circ, p.building = nil, false
	s.problem = fault.New(fault.KindOf(cause), "introduction point: %w", cause)
	known := !p.target.RSA.IsZero()
	if known && !p.replaced && p.retries < pointRetries && now.Before(p.expires) && s.mayLaunch(now) {
		p.retries++
		s.launch(p, now)
		return
	}
	s.notBefore = now.Add(pointPause)
	s.points = slices.DeleteFunc(s.points, func(o *point) bool { return o == p })
}

// introPoints returns the points that the next descriptor names.
func (s *Service) introPoints() (out []netdoc.HSIntroPoint, ids []ident.Ed25519ID) {
	for _, p := range s.points {
		if p.replaced || p.target.RSA.IsZero() || p.circ == nil && !p.building {
			continue
		}
		out = append(out, netdoc.HSIntroPoint{Specs: p.target.Specs(), Onion: p.target.Ntor, Auth: p.id(), Enc: p.enc.Public()})
		ids = append(ids, p.id())
	}
	return out, ids
}

// closeSoon closes a circuit on another goroutine: what hears of its end takes the
// service's mutex.
func (s *Service) closeSoon(c *circuit.Circuit) {
	s.wg.Go(panics.Contain(s.log, nil, func() { closeCircuit(c) }))
}

func closeCircuit(c *circuit.Circuit) { c.Close(cell.DestroyNone, ErrDone) }
