package hsservice

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/protover"
)

const (
	// Descriptors are uploaded again after a time between these two.
	minUpload, maxUpload = 60 * time.Minute, 120 * time.Minute
	// fewPoints is how long the first descriptor of a period waits for the rest of the
	// introduction points, once there is one.
	fewPoints = 5 * time.Second
	// fewPointsCommon is how long each descriptor of a service that looks like C tor's waits for them. C tor's waits until
	// all stand. So does this one, nearly always: where a relay does not answer, others are tried at once. But a service whose
	// last point cannot be had must be found nevertheless.
	fewPointsCommon = 30 * time.Second
	// minRetry and maxRetry bound the pause before a failed upload is tried again,
	// which doubles.
	minRetry, maxRetry = 5 * time.Second, 5 * time.Minute
	// maxUploads is how many uploads of one descriptor are under way.
	maxUploads = 4
	// maxCommonUploads is the same of a service that looks like C tor's. A descriptor has eight directories, unless
	// the consensus says otherwise.
	maxCommonUploads = 16
	// oldSubcreds is how many secrets of periods are kept for clients with older
	// descriptors.
	oldSubcreds = 4
)

// descriptor is the one of one time period. The service's mutex guards what changes.
type descriptor struct {
	period  period
	keys    netdoc.HSKeys
	counter *hscrypto.Counter

	busy     bool
	stop     context.CancelFunc // of the uploads, while busy
	pow      *netdoc.HSPoW      // what the last one that was made says; nil: nothing
	revision uint64             // of the last one that was made
	floor    uint64             // a directory has one with this revision already
	content  [32]byte           // of the last one that was made: see contentOf
	doc      *netdoc.HSDescriptor
	kem      *handshake.HSKEMKey // doc's; nil: it has none
	left     []netdir.Relay      // directories that have not taken doc
	next     time.Time           // when there must be a new one
	retry    time.Time           // of what failed; zero: nothing did
	failures int

	less  int             // how many points too many for the length of a descriptor there were
	hosts []hsfleet.Entry // of a fleet: those that the next one names
	view  hsfleet.View

	dir  *netdir.Directory // dirs are of this one
	dirs []netdir.Relay

	made     time.Time // when it came among the two
	since    time.Time // when its first introduction point was established
	short    time.Time // since when some points stand, but fewer than are wanted; zero: they do not
	lacks    bool      // no relay was found for one more point, since the last one was established
	failed   []failure // relays that were points, and lost
	looked   bool      // of a fleet: a look has ended
	yieldOff time.Time // of a fleet: until then no point makes room for another host's
}

// newDescriptor computes the keys of a period.
func newDescriptor(k *Key, p period, clients []ident.X25519Key) (*descriptor, error) {
	secret, err := hscrypto.BlindSecret([hscrypto.SecretLen]byte(k.Bytes()), p.Period)
	if err != nil {
		return nil, err
	}
	blinded, err := cert.NewBlinded(secret[:])
	if err != nil {
		return nil, err
	}
	counter, err := hscrypto.NewCounter(secret)
	if err != nil {
		return nil, err
	}
	keys := netdoc.HSKeys{Blinded: blinded, Subcredential: hscrypto.Subcredential(k.ID(), blinded.Public()), Clients: clients}
	return &descriptor{period: p, keys: keys, counter: counter, made: time.Now()}, nil
}

// tendAllDescriptorsLocked keeps the descriptors of the two periods, and begins the uploads
// that are due.
func (s *Service) tendAllDescriptorsLocked(d *netdir.Directory, now time.Time) (wait time.Duration) {
	wait = longest
	done := true
	for _, x := range s.descs {
		if s.fleet != nil && !x.looked && !x.busy {
			s.look(d, x, now)
		}
		own, w, ok := s.readyLocked(x, now)
		if ok {
			w = s.tendDescriptorLocked(d, x, own, now)
		}
		wait = min(wait, w)
		done = done && ok && w == longest && !x.busy
	}
	if s.fleet != nil && done {
		s.noteLeftLocked()
	}
	return wait
}

// allowed leaves out the directories that the user excludes.
func (s *Service) allowed(dirs []netdir.Relay) []netdir.Relay {
	return slices.DeleteFunc(slices.Clone(dirs), func(r netdir.Relay) bool {
		t := r.Target()
		return s.cfg.Network.Refused(&t) != nil
	})
}

// readyLocked returns the introduction points that a descriptor names; not ok: it is better to
// wait for more of them.
func (s *Service) readyLocked(x *descriptor, now time.Time) (own []netdoc.HSIntroPoint, wait time.Duration, ok bool) {
	if s.frontend != nil {
		own = s.frontend.Points(s.pointRoomLocked())
		return own, longest, len(own) > 0
	}
	own = s.introPointsLocked(x, now)
	up := s.establishedLocked(x)
	switch {
	case s.leaving():
		return own, 0, true
	case up == 0:
		return nil, longest, false
	}
	if up < s.live.Load().IntroductionPoints && !x.lacks {
		from, most := x.since, fewPoints
		if s.cfg.Rest != nil {
			from, most = x.short, fewPointsCommon
		}
		if wait = from.Add(most).Sub(now); !from.IsZero() && wait > 0 {
			return nil, wait, false
		}
	}
	return own, 0, true
}

// noteStanding notes how many introduction points of a descriptor stand, of those that are wanted.
func (x *descriptor) noteStanding(up, want int, now time.Time) {
	switch {
	case up == 0 || up >= want:
		x.short = time.Time{}
	case x.short.IsZero():
		x.short = now
	}
}

// tendDescriptorLocked makes and uploads one descriptor, if that is due. The result is longest
// when there is nothing to do.
func (s *Service) tendDescriptorLocked(d *netdir.Directory, x *descriptor, own []netdoc.HSIntroPoint, now time.Time) (wait time.Duration) {
	if x.busy {
		if s.uploadOnce() && len(own) > 0 && s.outdated(d, x, own) {
			x.stop() // it would take long to give up, and clients must find the new points
		}
		return longest
	}
	dirs := s.allowed(x.directories(d))
	if len(dirs) == 0 {
		s.problem = fault.New(fault.Directory, "onion service: the network has no directories for descriptors that may be used")
		return minRetry
	}
	points := own
	if s.fleet != nil {
		x.hosts = s.roster(x, own, now)
		points = hsfleet.PointsOf(x.hosts)
	}
	effort := s.work.suggested()
	if s.fleet != nil {
		effort = hsfleet.EffortOf(x.hosts)
	}
	x.pow = s.work.offer(x.pow, effort, now)
	content := contentOf(x, dirs, points, s.frontend.offer()+offerText(x.pow))
	fresh := content != x.content || !now.Before(x.next) || x.floor >= x.revision
	// A pause after a failed upload is for the same descriptor, not for what is new. There is
	// no content if it is for something else, and the hosts of a fleet need it to take turns.
	again := s.fleet != nil || content == x.content || x.content == [32]byte{}
	if again && now.Before(x.retry) {
		return x.retry.Sub(now)
	}
	if s.fleet != nil && s.tendFleet(d, x, fresh && len(points) > 0, now) {
		return longest
	}
	if !fresh && x.retry.IsZero() || len(points) == 0 {
		return longest
	}
	if fresh {
		if s.fleet != nil {
			if wait := x.view.Pause(now); wait > 0 {
				return wait
			}
		}
		if err := s.makeLocked(x, points, content, now); errors.Is(err, errTooLong) {
			return time.Millisecond // with fewer points, then
		} else if err != nil {
			s.problem = err
			x.retry, x.content = now.Add(maxRetry), [32]byte{} // there is nothing to upload
			s.log.Error("onion service's descriptor", "err", err)
			return maxRetry
		}
		x.left = dirs
		x.view.Count(now)
	}
	s.publishLocked(d, x)
	return longest
}

// directories returns those that a descriptor belongs to.
func (x *descriptor) directories(d *netdir.Directory) []netdir.Relay {
	if x.dir != d {
		x.dir, x.dirs = d, x.period.directories(d, x.keys.Blinded.Public())
	}
	return x.dirs
}

// outdated reports whether a descriptor that is being uploaded says other than the next one would, but for its proofs of work.
func (s *Service) outdated(d *netdir.Directory, x *descriptor, own []netdoc.HSIntroPoint) bool {
	dirs := s.allowed(x.directories(d))
	return len(dirs) > 0 && contentOf(x, dirs, own, s.frontend.offer()+offerText(x.pow)) != x.content
}

// setPeriodsLocked makes and drops descriptors, so that there is one for each period.
func (s *Service) setPeriodsLocked(periods [2]period) error {
	var descs []*descriptor
	for _, p := range periods {
		i := slices.IndexFunc(s.descs, func(x *descriptor) bool { return x.period.Period == p.Period })
		if i >= 0 {
			s.descs[i].period = p // its shared random value may have come, or moved
			descs = append(descs, s.descs[i])
			continue
		}
		x, err := newDescriptor(s.cfg.Key, p, s.fleet.clients(s.live.Load().Clients))
		if err != nil {
			return err
		}
		descs = append(descs, x)
		s.cfg.Tell.Event(netdir.HSEvent{Action: netdir.HSCreated, Service: s.cfg.Key.ID(), Blinded: x.keys.Blinded.Public()})
		s.subcreds = append(s.subcreds[:len(s.subcreds):len(s.subcreds)], x.keys.Subcredential)
		s.subcreds = s.subcreds[max(0, len(s.subcreds)-oldSubcreds):]
		s.blinded = append(s.blinded[:len(s.blinded):len(s.blinded)], x.keys.Blinded.Public())
		s.blinded = s.blinded[max(0, len(s.blinded)-oldSubcreds):]
	}
	s.descs = descs
	s.dropPointsLocked()
	return nil
}

// dropPointsLocked ends the points whose descriptors are of no period any more: as C tor does, at once. Clients have asked by
// another descriptor for half a period by then.
func (s *Service) dropPointsLocked() {
	s.points = slices.DeleteFunc(s.points, func(p *point) bool {
		if slices.Contains(s.descs, p.of) {
			return false
		}
		s.endLocked(p)
		return true
	})
}

// endLocked ends the circuit to a point, and a launch that is under way.
func (s *Service) endLocked(p *point) {
	if p.cancel != nil {
		p.cancel()
	}
	if p.circ != nil {
		s.destroy(p.circ)
	}
}

// contentOf is a digest of what a descriptor says, and of where it belongs: when it
// changes, there must be a new one.
func contentOf(x *descriptor, dirs []netdir.Relay, points []netdoc.HSIntroPoint, offer string) (sum [32]byte) {
	h := sha256.New()
	h.Write(x.period.srv[:])
	h.Write([]byte(offer))
	for _, p := range points {
		h.Write(p.Auth[:])
		h.Write(p.Enc[:])
	}
	h.Write([]byte{0}) // else a point could stand for a client
	for _, k := range sortedClients(x.keys.Clients) {
		h.Write(k[:])
	}
	for _, d := range dirs {
		id := d.RSA()
		h.Write(id[:])
	}
	h.Sum(sum[:0])
	return sum
}

// publishLocked begins to upload a descriptor to the directories that lack it.
func (s *Service) publishLocked(d *netdir.Directory, x *descriptor) {
	x.busy = true
	ctx, stop := context.WithCancel(s.ctx)
	x.stop = stop
	if x.kem != nil {
		s.kems.keep(x.kem, time.Now())
	}
	doc, dirs := x.doc, s.allowed(x.left)
	var gone []*point // not in this descriptor
	for _, p := range s.points {
		if p.of == x && p.replaced && p.outSince.IsZero() {
			gone = append(gone, p)
		}
	}
	clients := x.period.Period == d.HSTimes(s.cfg.Network.Testing()).Period
	had := len(dirs) < len(s.allowed(x.dirs)) // some took it before, and could not be asked then
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(err error) { s.noteUpload(x, nil, len(dirs), dirs, err) })
		defer stop()
		left, err := s.uploadAll(ctx, x, dirs, doc)
		if clients && s.fleet == nil && (had || len(left) < len(dirs)) && !s.isPublished() {
			if verr := s.verify(d, x, doc.Revision); verr != nil {
				err = verr
			}
		}
		s.noteUpload(x, gone, len(dirs), left, err)
	})
}

// merges reports whether descriptors name points of others.
func (s *Service) merges() bool { return s.fleet != nil || s.frontend != nil }

// pointRoom returns how many points the descriptor has room for.
func (x *descriptor) pointRoom() int { return netdoc.MaxIntroPoints - x.less }

// pointRoomLocked returns how many points every descriptor has room for.
func (s *Service) pointRoomLocked() int {
	n := netdoc.MaxIntroPoints
	for _, x := range s.descs {
		n = min(n, x.pointRoom())
	}
	return n
}

// isPublished reports whether clients can find the service, as WaitPublished says.
func (s *Service) isPublished() bool {
	select {
	case <-s.published:
		return true
	default:
		return false
	}
}

// makeLocked makes a descriptor whose revision is greater than that of any before it.
func (s *Service) makeLocked(x *descriptor, points []netdoc.HSIntroPoint, content [32]byte, now time.Time) error {
	ope, err := x.counter.Within(now.Sub(x.period.run))
	if err != nil {
		return err
	}
	x.revision = max(ope, x.revision+1, x.floor+1)
	most := netdoc.MaxHSDescriptor
	if x.dir != nil {
		most = int(x.dir.Param("HSV3MaxDescriptorSize", netdoc.MaxHSDescriptor, 1, 1<<20))
	}
	var kem []byte
	if x.kem = nil; s.cfg.PQ != circuit.PQOff {
		if x.kem, err = handshake.NewHSKEMKey(rand.Reader, x.keys.Blinded.Public()); err != nil {
			return err
		}
		kem = x.kem.Public()
	}
	points = points[:min(len(points), netdoc.MaxIntroPoints)]
	for wanted := s.live.Load().IntroductionPoints; ; points = points[:len(points)-1] {
		inner, err := s.innerOfLocked(x, points, kem)
		if err != nil {
			return err
		}
		if x.doc, err = encode(&x.keys, x.revision, inner, now, most); err == nil {
			break
		}
		if !errors.Is(err, errTooLong) {
			return err
		}
		if s.merges() && len(points) > 1 {
			x.less, x.content = netdoc.MaxIntroPoints-len(points)+1, [32]byte{}
			return errTooLong // the points of all must be shared again
		}
		if len(points) <= wanted {
			return tooLong(most, len(points), len(x.keys.Clients))
		}
		// The last ones are old, and others have their place already.
	}
	x.content = content
	from, to := minUpload, maxUpload
	if s.fleet != nil {
		from, to = hsfleet.RefreshMin, hsfleet.RefreshMax
	}
	x.next = now.Add(from + time.Duration(random(int64(to-from))))
	return nil
}

// innerOfLocked returns what a descriptor tells clients.
func (s *Service) innerOfLocked(x *descriptor, points []netdoc.HSIntroPoint, kem []byte) (*netdoc.HSInner, error) {
	inner, err := innerOf(points, s.inc, s.cfg.CGO, s.cfg.Single, kem, x.pow)
	if err != nil || !s.merges() {
		return inner, err
	}
	inner.Points = mixed(points) // their order must not tell which are of one host
	if s.frontend != nil {
		inner.FlowControl, inner.SendmeInc, inner.CGO = protover.Set{}, 0, false
		s.frontend.OfferFlow(inner)
		inner.HalfClose = s.frontend.HalfClose()
	}
	if s.fleet != nil {
		inner.Fleet, err = s.fleet.Sealer.Seal(x.hosts, x.keys.Blinded.Public(), x.revision)
	}
	return inner, err
}

// mixed returns the points in a random order.
func mixed(points []netdoc.HSIntroPoint) (out []netdoc.HSIntroPoint) {
	for _, i := range shuffled(len(points), len(points)) {
		out = append(out, points[i])
	}
	return out
}
