package hsservice

import (
	"context"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// uploadAll gives a descriptor to directories; it returns those that did not take it,
// and the last failure.
func (s *Service) uploadAll(ctx context.Context, x *descriptor, dirs []netdir.Relay, doc *netdoc.HSDescriptor) (left []netdir.Relay, last error) {
	slots := make(chan struct{}, s.uploadsAtOnce())
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := func(dir netdir.Relay, err error) {
		mu.Lock()
		defer mu.Unlock()
		left, last = append(left, dir), err
	}
	for _, dir := range dirs {
		slots <- struct{}{}
		wg.Go(func() {
			defer panics.Recover(s.log, func(err error) { failed(dir, err) })
			defer func() { <-slots }()
			if err := s.uploadTo(ctx, x, dir, doc); err != nil {
				failed(dir, err)
			}
		})
	}
	wg.Wait()
	return left, last
}

// uploadOnce reports whether an upload that failed is left until the next descriptor is due, as C tor does it, and no directory is
// asked why. What a host of a fleet uploads must arrive. Another program that has the same
// key, or had it, is no reason to ask: the revision of the next descriptor is greater, because it grows with time.
func (s *Service) uploadOnce() bool { return s.cfg.Limit != nil && s.fleet == nil }

// isPresent reports whether a descriptor is the one that clients fetch now.
func (s *Service) isPresent(x *descriptor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.period.Period == s.present
}

// uploadsAtOnce is how many uploads of one descriptor are under way.
func (s *Service) uploadsAtOnce() int {
	if s.cfg.Rest != nil {
		return maxCommonUploads
	}
	return maxUploads
}

// uploadTo uploads to one directory. If it refuses, perhaps somebody with the same key
// has given it a newer one: another program that this service was moved from, whose
// counter differs. Then the next one must be above that. A directory that refuses what it
// already has needs no other one: else it could make this service publish without end.
func (s *Service) uploadTo(ctx context.Context, x *descriptor, dir netdir.Relay, doc *netdoc.HSDescriptor) error {
	e := netdir.HSEvent{Action: netdir.HSUpload, Service: s.cfg.Key.ID(), Blinded: doc.Blinded, Dir: dir, Index: s.indexOf(x, dir)}
	s.cfg.Tell.Event(e)
	refused, err := s.store.upload(ctx, dir, doc.Text)
	if err == nil {
		e.Action = netdir.HSUploaded
		s.cfg.Tell.Event(e)
		if s.uploadOnce() && s.isPresent(x) {
			s.pubOnce.Do(func() { close(s.published) }) // another upload may take minutes to fail
		}
		return nil
	}
	e.Action, e.Reason = netdir.HSFailed, "UNEXPECTED"
	if refused {
		e.Reason = "UPLOAD_REJECTED"
	}
	s.cfg.Tell.Event(e)
	s.log.Debug("onion service's descriptor: upload failed", "relay", dir, "err", err)
	if refused && !s.uploadOnce() {
		if old, ferr := s.store.fetch(s.ctx, dir, doc.Blinded); ferr == nil && old != nil {
			if old.Revision == doc.Revision && old.Signing == doc.Signing {
				return nil
			}
			if s.fleet != nil {
				s.noteRefusal(x, old)
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			x.floor = max(x.floor, old.Revision)
		}
	}
	return err
}

// indexOf returns the place of a directory on the ring of a descriptor's period.
func (s *Service) indexOf(x *descriptor, dir netdir.Relay) [32]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hscrypto.NodeIndex(dir.ID().Ed, x.period.srv, x.period.Period)
}

// Descriptor returns the text of the descriptor that clients fetch now; nil: there is none yet.
func (s *Service) Descriptor() []byte {
	d, _ := s.cfg.Network.Directory()
	if d == nil {
		return nil
	}
	now := d.HSTimes(s.cfg.Network.Testing()).Period
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.descs {
		if x.period.Period == now && x.doc != nil {
			return x.doc.Text
		}
	}
	return nil
}

// noteUpload notes what came of uploads. gone are the points that the descriptor does
// not name any more.
func (s *Service) noteUpload(x *descriptor, gone []*point, total int, left []netdir.Relay, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.kick()
	done := total - len(left)
	if total > 0 {
		s.log.Info("onion service's descriptor uploaded", "directories", done, "failed", len(left))
	}
	if done > 0 {
		s.uploadedAt = now
	}
	x.busy = false
	x.view.Next = now.Add(lookSoon)
	if !s.isPublished() {
		x.view.Next = now
	}
	if x.doc == nil || x.doc.Revision != x.revision || x.content == ([32]byte{}) {
		return // another host's is newer, or collides with it (saw)
	}
	if s.leaving() && done > 0 {
		left, err = nil, nil // some have it: nobody waits for the others
	}
	once := s.uploadOnce()
	if once {
		left = nil
	}
	if x.retry = (time.Time{}); err != nil && once {
		s.problem = err
	} else if err != nil {
		s.problem = err
		x.retry = now.Add(min(maxRetry, minRetry<<min(x.failures, 10)))
		x.failures++
	} else {
		x.failures, s.problem = 0, nil
	}
	if x.left = left; done > 0 {
		for _, p := range gone {
			p.outSince = now
		}
	}
}

// verify fetches a descriptor back, over circuits of its own, from the directories
// that clients ask. A service that looks like C tor's takes the word of who has taken it: that one asks for
// nothing, so its guard and the directories would see the difference.
func (s *Service) verify(d *netdir.Directory, x *descriptor, revision uint64) error {
	if s.cfg.Rest != nil {
		s.pubOnce.Do(func() { close(s.published) })
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, 2*dirTimeout, errDirTimeout)
	defer cancel()
	blinded := x.keys.Blinded.Public()
	replicas, _, spread := d.HSSpread()
	dirs := d.HSFetchRing(d.HSTimes(s.cfg.Network.Testing())).Responsible(blinded, replicas, spread)
	err := fault.New(fault.Directory, "onion service: no directory has its descriptor")
	for _, dir := range s.allowed(dirs) {
		got, ferr := s.store.fetch(ctx, dir, blinded)
		if ferr == nil && got != nil && got.Revision >= revision {
			s.pubOnce.Do(func() { close(s.published) })
			return nil
		}
		if ferr != nil {
			err = ferr
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}
