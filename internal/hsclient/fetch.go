package hsclient

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/stream"
)

const (
	// fetchTimeout bounds one question to one directory, with its circuit.
	fetchTimeout = 30 * time.Second
	// While a fresh descriptor is looked for, a directory that was asked is left alone for
	// firstPause, and then for twice as long each time, up to lastPause. With Config.Once it is
	// another rule: see search.go.
	firstPause, lastPause = 3 * time.Second, time.Minute
	// maxDescriptor is the length of the longest descriptor that is read, whatever the
	// consensus says, in bytes.
	maxDescriptor = 1 << 20
	// maxCached bounds the descriptors that are kept.
	maxCached = 200
)

// cached is a descriptor that was read.
type cached struct {
	inner         *netdoc.HSInner
	blinded       ident.Ed25519ID
	subcredential [32]byte
	revision      uint64
	expires       time.Time
	sought        time.Time // when it, or a newer one for its puzzle's sake, was last fetched

	text    []byte           // of the descriptor; nil: it is not kept
	size    int              // of what is kept, in bytes
	account *account.Account // while it is kept
}

// question is that a directory was asked for a key's descriptor.
type question struct{ blinded, dir ident.Ed25519ID }

// pause is how long a directory is left alone after a question.
type pause struct {
	since  time.Time
	length time.Duration
}

// directories returns the relays to ask for a service's descriptor.
func directories(d *netdir.Directory, t netdir.HSTimes, blinded ident.Ed25519ID) []netdir.Relay {
	replicas, _, fetch := d.HSSpread()
	return d.HSFetchRing(t).Responsible(blinded, replicas, fetch)
}

// descriptor returns the service's descriptor. If stale is not nil, it led nowhere:
// then only a newer one will do.
func (c *Client) descriptor(ctx context.Context, h *history, stale *cached) (*cached, error) {
	d, err := c.cfg.Network.Directory(ctx)
	if err != nil {
		return nil, err
	}
	t := d.HSTimes(c.cfg.Testing)
	svc, err := c.service(h.key.id, t.Period)
	if err != nil {
		return nil, err
	}
	if got := c.kept(svc.blinded, h.epoch); got != nil && got != stale {
		return got, nil
	}
	dirs := c.choose(svc.blinded, directories(d, t, svc.blinded), stale != nil && !c.cfg.Once)
	if len(dirs) == 0 {
		return nil, fault.New(fault.Directory, "onion service: %w", ErrNoDescriptor)
	}
	k := &hunt{c: c, h: h, svc: &svc, stale: stale, last: fault.New(fault.Directory, "onion service: %w", ErrNoDescriptor)}
	k.search = c.beginSearch(svc.blinded)
	defer c.endSearch(k.search)
	if c.cfg.Once {
		return k.once(ctx, dirs)
	}
	for _, dir := range dirs {
		if got, over, err := k.ask(ctx, dir); over {
			return got, err
		}
	}
	return nil, k.last
}

// hunt is what one attempt's questions for a descriptor have brought.
type hunt struct {
	c      *Client
	h      *history
	svc    *service
	stale  *cached // only a newer one will do
	search *search
	asked  int
	last   error // what the answers so far mean
}

// ask asks one directory; over: no other need be asked.
func (k *hunt) ask(ctx context.Context, dir netdir.Relay) (got *cached, over bool, err error) {
	got, err = k.c.ask(ctx, k.h, dir, k.svc, k.search)
	switch {
	case errors.Is(err, errInLine):
		return nil, true, err
	case ctx.Err() != nil:
		return nil, true, k.ended(ctx)
	case errors.Is(err, errAskedLately):
		return nil, false, nil
	}
	k.asked++
	if err == nil && k.stale != nil && got.blinded == k.stale.blinded && got.revision <= k.stale.revision {
		return nil, false, nil // the same again
	}
	if err == nil {
		k.c.keep(got, k.h.epoch)
		return got, true, nil
	}
	k.c.cfg.Log.Debug("no descriptor of an onion service", "directory", dir, "err", err)
	switch {
	case errors.Is(err, ErrNeedsAuth), errors.Is(err, ErrBadAuth):
		return nil, true, err // the others have the same descriptor
	case errors.Is(err, ErrBadDescriptor):
		k.last = err // it tells more than that another directory has none
	case !errors.Is(err, ErrNoDescriptor) && !errors.Is(k.last, ErrBadDescriptor):
		k.last = fault.New(fault.Directory, "onion service: %w: %w", ErrNoDescriptor, err)
	}
	return nil, false, nil
}

func (k *hunt) ended(ctx context.Context) error {
	return fault.Ended(ctx, "onion service: its descriptor: %w", context.Cause(ctx))
}

// kept returns the descriptor that is kept for a blinded key, or nil. An attempt that began
// before NewIdentity has none: a directory may give each client another one, and so know it again.
func (c *Client) kept(blinded ident.Ed25519ID, epoch int) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.descs[blinded]
	if got == nil || c.epoch != epoch || time.Now().After(got.expires) {
		return nil
	}
	return got
}

// keep keeps a descriptor, unless a new identity was asked for since, or a newer one was
// fetched: one directory alone must not bring an old one back.
func (c *Client) keep(got *cached, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || c.closed {
		return
	}
	now := time.Now()
	for k, d := range c.descs {
		if now.After(d.expires) {
			c.dropLocked(k)
		}
	}
	if d := c.descs[got.blinded]; d != nil && d.revision > got.revision {
		return
	}
	c.dropLocked(got.blinded)
	makeRoom(c.descs, maxCached, func(d *cached) time.Time { return d.sought }, c.dropLocked)
	got.account = c.room.Open(account.Kept, func(error) { c.evict(got) })
	got.account.Reserve(got.size)
	got.sought = now
	c.descs[got.blinded] = got
}

// dropLocked forgets the descriptor of a blinded key, if there is one.
func (c *Client) dropLocked(blinded ident.Ed25519ID) {
	if d := c.descs[blinded]; d != nil {
		d.account.Close()
		delete(c.descs, blinded)
	}
}

// evict forgets a descriptor because the memory is full: it is fetched again if it is
// needed.
func (c *Client) evict(d *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.descs[d.blinded] == d {
		c.dropLocked(d.blinded)
	}
}

// choose returns the directories to ask, in a random order: for a fresh descriptor,
// those that were not asked lately.
func (c *Client) choose(blinded ident.Ed25519ID, dirs []netdir.Relay, fresh bool) []netdir.Relay {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for q, p := range c.asked {
		if now.Sub(p.since) > max(2*lastPause, p.length) {
			delete(c.asked, q)
		}
	}
	var out []netdir.Relay
	for _, r := range dirs {
		t := r.Target()
		p, asked := c.asked[question{blinded, t.Ed}]
		if fresh && asked && now.Sub(p.since) < p.length || c.cfg.Network.Refused(&t) != nil {
			continue
		}
		out = append(out, r)
	}
	shuffle(out)
	return out
}

// noteLocked notes that a directory is asked; false: it must not be.
func (c *Client) noteLocked(q question, epoch int) bool {
	p, asked := c.asked[q]
	switch now := time.Now(); {
	case c.epoch != epoch:
	case !c.cfg.Once:
		c.asked[q] = pause{now, min(max(firstPause, 2*p.length), lastPause)}
	case asked && now.Sub(p.since) <= p.length:
		return false
	default:
		c.asked[q] = pause{now, c.requery()}
	}
	return true
}

// forgetAsked forgets who was asked for a descriptor that has led to its service.
func (c *Client) forgetAsked(blinded ident.Ed25519ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetAskedLocked(blinded)
}

func (c *Client) forgetAskedLocked(blinded ident.Ed25519ID) {
	maps.DeleteFunc(c.asked, func(q question, _ pause) bool { return q.blinded == blinded })
}

// ask fetches a descriptor from one directory and reads it, when its turn has come. The question is one of a
// search, and counts for later ones; nil: it is a controller's, and does not.
func (c *Client) ask(ctx context.Context, h *history, dir netdir.Relay, svc *service, s *search) (*cached, error) {
	if err := c.turns.wait(ctx, h.key.key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, errFetchTimeout)
	defer cancel()
	if s != nil {
		if !c.begin(s, question{svc.blinded, dir.ID().Ed}, h.epoch) {
			return nil, errAskedLately
		}
		defer c.answered(s)
	}
	d, err := c.cfg.Network.Directory(ctx)
	if err != nil {
		return nil, err
	}
	e := netdir.HSEvent{Action: netdir.HSRequested, Service: svc.id, Blinded: svc.blinded, Dir: dir, Index: d.HSFetchIndex(d.HSTimes(c.cfg.Testing), dir)}
	c.cfg.Tell.Event(e)
	status, body, err := c.request(ctx, d, dir, svc)
	if err != nil || status != http.StatusOK {
		e.Action, e.Fetch, e.Reason = netdir.HSFailed, true, wordFor(status, err)
		c.cfg.Tell.Event(e)
		if err == nil {
			err = badStatus(status)
		}
		return nil, err
	}
	got, err := c.read(body, svc, time.Now())
	if e.Action, e.Text = netdir.HSReceived, body; errors.Is(err, ErrBadDescriptor) {
		e.Action, e.Fetch, e.Reason, e.Text = netdir.HSFailed, true, "BAD_DESC", nil
	}
	c.cfg.Tell.Event(e)
	return got, err
}

// request asks one directory for a descriptor.
func (c *Client) request(ctx context.Context, d *netdir.Directory, dir netdir.Relay, svc *service) (status int, body []byte, err error) {
	s, end, err := c.toDirectory(ctx, dir)
	if err != nil {
		return 0, nil, err
	}
	defer end()
	path := "/tor/hs/3/" + base64.RawStdEncoding.EncodeToString(svc.blinded[:])
	status, body, err = dirclient.Get(s, dir.IPv4(), path, int64(d.Param("HSV3MaxDescriptorSize", netdoc.MaxHSDescriptor, 1, maxDescriptor)))
	switch {
	case ctx.Err() != nil:
		return 0, nil, fault.Ended(ctx, "onion service: a directory: %w", context.Cause(ctx))
	case err != nil:
		return 0, nil, fault.New(fault.KindOf(err), "onion service: a directory: %w", err)
	}
	return status, body, nil
}

// toDirectory opens a stream to a directory, over a circuit of its own. end ends both.
func (c *Client) toDirectory(ctx context.Context, dir netdir.Relay) (s *stream.Stream, end func(), err error) {
	circ, err := c.cfg.Network.To(ctx, dir.Target(), nil)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, panics.Contain(c.cfg.Log, nil, circ.Close))
	if s, err = stream.BeginDir(circ.Engine().Last()); err != nil {
		stop()
		circ.Close()
		return nil, nil, err
	}
	return s, func() {
		s.Close()
		if stop() && c.cfg.Rest != nil {
			c.cfg.Rest(circ)
			return
		}
		circ.Close()
	}, nil
}

var errFetchTimeout = errors.New("the directory did not answer in time")

// read reads a descriptor.
func (c *Client) read(body []byte, svc *service, now time.Time) (*cached, error) {
	bad := func(err error) error {
		return fault.New(fault.Directory, "onion service: %w: %w", ErrBadDescriptor, err)
	}
	desc, err := netdoc.ParseHSDescriptor(body, now)
	if err != nil {
		return nil, bad(err)
	}
	if desc.Blinded != svc.blinded {
		return nil, bad(errors.New("it is another service's, or of another time"))
	}
	inner, err := desc.Open(svc.subcredential, c.cfg.Keys()[svc.id])
	switch {
	case errors.Is(err, ErrNeedsAuth), errors.Is(err, ErrBadAuth):
		return nil, err
	case err != nil:
		return nil, bad(err)
	case len(inner.Points) == 0:
		return nil, bad(errors.New("it has no introduction point that can be used"))
	}
	if inner.KEM != nil {
		if err := handshake.CheckHSKEM(inner.KEM); err != nil {
			return nil, bad(err)
		}
	}
	got := &cached{inner: inner, blinded: svc.blinded, subcredential: svc.subcredential, revision: desc.Revision,
		expires: now.Add(min(desc.Lifetime, netdoc.HSLifetime)), size: len(body)}
	if c.texts.Load() {
		got.text, got.size = body, 2*len(body)
	}
	return got, nil
}
