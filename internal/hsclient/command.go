package hsclient

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// maxCommands bounds the fetches and uploads of controllers that are under way.
const maxCommands = 64

var errManyCommands = fault.New(fault.Local, "onion service: %d fetches and uploads of descriptors are under way already", maxCommands)

// controllers is the isolation key of what controllers have this client do.
func controllers(id ident.Ed25519ID) connKey { return connKey{id, isolation.Key{Listener: "control"}} }

// FetchNow fetches a service's descriptor from each of some directories, or, if there are none, from one of those
// that clients ask. It does not wait: Config.Tell hears what comes of it.
func (c *Client) FetchNow(id ident.Ed25519ID, from []ident.RSAID) error {
	return c.command(func(ctx context.Context, d *netdir.Directory) {
		t := d.HSTimes(c.cfg.Testing)
		svc, err := c.service(id, t.Period)
		if err != nil {
			return // the address was looked at before
		}
		dirs := relays(d, from)
		if len(from) == 0 {
			if dirs = c.choose(svc.blinded, directories(d, t, svc.blinded), c.cfg.Once); len(dirs) > 1 {
				dirs = dirs[:1]
			}
		}
		if len(dirs) == 0 {
			c.cfg.Tell.Event(netdir.HSEvent{Action: netdir.HSFailed, Service: id, Blinded: svc.blinded, Reason: "QUERY_NO_HSDIR", Fetch: true})
		}
		h := c.historyOf(controllers(id))
		var s *search
		if len(from) == 0 {
			s = c.beginSearch(svc.blinded)
			defer c.endSearch(s)
		}
		for _, dir := range dirs {
			if got, err := c.ask(ctx, h, dir, &svc, s); err == nil {
				c.keep(got, h.epoch)
			} else {
				c.cfg.Log.Debug("no descriptor of an onion service", "directory", dir, "err", err)
			}
		}
	}, func() {
		c.cfg.Tell.Event(netdir.HSEvent{Action: netdir.HSFailed, Service: id, Reason: "QUERY_NO_HSDIR", Fetch: true})
	})
}

// PostNow gives a descriptor that somebody else has made to directories, or, if there are none, to those that
// should have it. It does not wait: Config.Tell hears what comes of it. An error is about the descriptor.
func (c *Client) PostNow(id ident.Ed25519ID, text []byte, to []ident.RSAID) error {
	desc, err := netdoc.ParseHSDescriptor(text, time.Now())
	if err != nil {
		return err
	}
	return c.command(func(ctx context.Context, d *netdir.Directory) {
		t := d.HSTimes(c.cfg.Testing)
		dirs := relays(d, to)
		if len(to) == 0 {
			replicas, store, _ := d.HSSpread()
			dirs = c.choose(desc.Blinded, d.HSFetchRing(t).Responsible(desc.Blinded, replicas, store), false)
		}
		for _, dir := range dirs {
			e := netdir.HSEvent{Action: netdir.HSUpload, Service: id, Blinded: desc.Blinded, Dir: dir, Index: d.HSFetchIndex(t, dir)}
			c.cfg.Tell.Event(e)
			e.Action = netdir.HSUploaded
			if rejected, err := c.post(ctx, d, dir, text); err != nil {
				c.cfg.Log.Debug("a controller's descriptor: upload failed", "relay", dir, "err", err)
				e.Action, e.Reason = netdir.HSFailed, "UNEXPECTED"
				if rejected {
					e.Reason = "UPLOAD_REJECTED"
				}
			}
			c.cfg.Tell.Event(e)
		}
	}, func() {
		c.cfg.Tell.Event(netdir.HSEvent{Action: netdir.HSFailed, Service: id, Blinded: desc.Blinded, Reason: "UNEXPECTED"})
	})
}

// command does what a controller asks for, when there is a directory, until the client is closed. without is called
// if there is none for too long.
func (c *Client) command(do func(context.Context, *netdir.Directory), without func()) error {
	if !c.beginCommand() {
		return errManyCommands
	}
	go panics.Contain(c.cfg.Log, nil, func() {
		defer c.wg.Done()
		defer c.commands.Add(-1)
		ctx, cancel := context.WithTimeoutCause(c.ctx, fetchTimeout, errFetchTimeout)
		defer cancel()
		if d, err := c.cfg.Network.Directory(ctx); err == nil {
			do(c.ctx, d)
		} else if c.ctx.Err() == nil {
			c.cfg.Log.Debug("a controller's descriptor: no directory of the network", "err", err)
			without()
		}
	})()
	return nil
}

// beginCommand counts a goroutine more, unless the client is closed or there are too many.
func (c *Client) beginCommand() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.commands.Add(1) > maxCommands {
		c.commands.Add(-1)
		return false
	}
	c.wg.Add(1)
	return true
}

// historyOf returns the history for a key.
func (c *Client) historyOf(k connKey) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.historyLocked(k)
}

// relays returns those of some relays that the directory has.
func relays(d *netdir.Directory, ids []ident.RSAID) (out []netdir.Relay) {
	for _, id := range ids {
		if r, ok := d.Lookup(id); ok && r.HasMicrodesc() {
			out = append(out, r)
		}
	}
	return out
}

// post gives a descriptor to a directory; rejected: that does not want it.
func (c *Client) post(ctx context.Context, d *netdir.Directory, dir netdir.Relay, text []byte) (rejected bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, errFetchTimeout)
	defer cancel()
	if err := c.turns.wait(ctx, controllers(ident.Ed25519ID{}).key); err != nil {
		return false, err
	}
	s, end, err := c.toDirectory(ctx, dir)
	if err != nil {
		return false, err
	}
	defer end()
	status, err := dirclient.Post(s, dir.IPv4(), "/tor/hs/3/publish", text)
	switch {
	case ctx.Err() != nil:
		return false, fault.Ended(ctx, "onion service: a directory: %w", context.Cause(ctx))
	case err != nil:
		return false, err
	case status != http.StatusOK:
		return status == http.StatusBadRequest, fault.New(fault.Refused, "onion service: a directory answers an upload with status %d", status)
	}
	return false, nil
}

// KeepTexts says whether the texts of descriptors are kept, for KeptText, from now on.
func (c *Client) KeepTexts(on bool) { c.texts.Store(on) }

// KeptText returns the text of the descriptor that is kept for a service; nil: none.
func (c *Client) KeptText(ctx context.Context, id ident.Ed25519ID) ([]byte, error) {
	d, err := c.cfg.Network.Directory(ctx)
	if err != nil {
		return nil, err
	}
	svc, err := c.service(id, d.HSTimes(c.cfg.Testing).Period)
	if err != nil {
		return nil, err
	}
	if got := c.kept(svc.blinded, c.epochNow()); got != nil {
		return got.text, nil
	}
	return nil, nil
}

// wordFor returns C tor's word for what came of a request.
func wordFor(status int, err error) string {
	switch {
	case err == nil && status == http.StatusNotFound:
		return "NOT_FOUND"
	case err == nil && status == http.StatusBadRequest:
		return "QUERY_REJECTED"
	}
	return "UNEXPECTED"
}

// badStatus is the error of a status that is not 200.
func badStatus(status int) error {
	if status == http.StatusNotFound {
		return fault.New(fault.Directory, "onion service: %w", ErrNoDescriptor)
	}
	return fault.New(fault.Directory, "onion service: %w", fmt.Errorf("a directory answers with status %d", status))
}
