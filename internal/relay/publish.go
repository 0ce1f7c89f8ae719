package relay

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// republish is the age at which a descriptor is replaced even if nothing has
	// changed (dir-spec, "uploading server descriptors").
	republish = 18 * time.Hour
	// bandwidthHold is how long a change of bandwidth replaces no descriptor after
	// the last one that said of such a change.
	bandwidthHold = 3 * time.Hour
	// relist is the age from which a descriptor is replaced if the authorities do
	// not list the relay by it, as in C tor: they may have refused or lost it.
	relist = 90 * time.Minute
	// uploadTimeout bounds one authority's answer.
	uploadTimeout = time.Minute
	// uploadRetry is the first wait after a failed upload.
	uploadRetry    = 10 * time.Second
	uploadRetryMax = time.Hour
	maxReply       = 4096
)

// publisher keeps the relay's descriptor at the authorities up to date.
type publisher struct {
	r         *Relay
	directory func() *netdir.Directory // the newest; nil before the first
	dirty     chan struct{}            // holds a token if the descriptor must be replaced

	mu       sync.Mutex                // guards what follows
	accepted map[ident.RSAID]time.Time // by authority: when it last accepted a descriptor
	last     time.Time                 // when the present descriptor was made
}

func newPublisher(r *Relay) *publisher {
	return &publisher{r: r, directory: r.Directory, dirty: make(chan struct{}, 1), accepted: map[ident.RSAID]time.Time{}}
}

// changed requests a new descriptor.
func (p *publisher) changed() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// run publishes until ctx is done. The first descriptor goes out at once.
func (p *publisher) run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	var observed uint64
	var moved time.Time // when a descriptor last had another bandwidth than the one before
	for first := true; ; first = false {
		// The age follows the wall clock, as at the authorities: see Keys.Renew.
		now, bw := time.Now(), p.r.bandwidth.Observed()
		if !first && differs(bw, observed) {
			moved = now
		}
		published := now.Round(0)
		observed = bw
		due := func(now time.Time) bool {
			if p.r.resting.Load() { // nobody uses what it would say
				return false
			}
			age := now.Sub(published)
			return stale(age, now.Sub(moved), p.r.bandwidth.Observed(), observed) || age >= relist && p.unlisted(published, now)
		}
		p.publish(ctx, due)
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return
			case <-p.dirty:
				again = true
			case now := <-tick.C:
				again = due(now)
			}
		}
	}
}

// stale reports whether a descriptor of the given age must be replaced, if the
// relay's observed bandwidth is bw bytes a second and the descriptor says
// observed. held is the time since a descriptor said of another bandwidth. The
// first change waits for nothing: a new relay has hardly any bandwidth in its first
// descriptor, and so no clients.
func stale(age, held time.Duration, bw, observed uint64) bool {
	setBack := age < -time.Hour // the descriptor's time was the wrong one
	return setBack || age >= republish || differs(bw, observed) && (held >= bandwidthHold || observed == 0)
}

// differs reports whether a bandwidth is worth a new descriptor.
func differs(bw, observed uint64) bool { return bw > 2*observed || bw < observed/2 }

// unlisted reports whether the consensus says that the authorities lack the
// descriptor of the given time: it does not list the relay, or by an old one.
func (p *publisher) unlisted(published, now time.Time) bool {
	d := p.directory()
	if d == nil || !d.Live(now) {
		return false
	}
	me, listed := d.Lookup(p.r.keys.ID.RSA)
	return !listed || me.Has(netdir.FlagStaleDesc) && d.ValidAfter().After(published)
}

// next returns the time of the next descriptor: it must be a later second, or
// authorities do not take it as newer.
func (p *publisher) next(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after := p.last.Add(time.Second); now.Before(after) {
		return after
	}
	return now
}

// publish makes a descriptor and uploads it to every authority. It tries again
// until each has accepted it or the descriptor must be replaced, which due reports too.
func (p *publisher) publish(ctx context.Context, due func(now time.Time) bool) {
	desc, extra, err := p.r.describe(p.next(time.Now()))
	if err != nil {
		p.r.log.Error("cannot describe the relay", "err", err)
		return
	}
	p.mu.Lock()
	p.last = desc.Published
	p.mu.Unlock()
	p.r.desc.Store(desc)
	if p.r.cfg.NoPublish || p.r.cfg.Bridge {
		return
	}
	doc := append(bytes.Clone(desc.Text), extra.Text...)
	todo := p.r.cfg.Network.Authorities
	for wait := uploadRetry; len(todo) > 0 && !due(time.Now()); wait = min(2*wait, uploadRetryMax) {
		todo = p.uploadAll(ctx, todo, doc)
		if len(todo) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
			p.changed() // run makes the next descriptor
			return
		case <-time.After(wait):
		}
	}
}

// uploadAll returns the authorities that did not accept the document and can be
// tried again.
func (p *publisher) uploadAll(ctx context.Context, to []netdir.Authority, doc []byte) []netdir.Authority {
	again := make([]bool, len(to))
	var wg sync.WaitGroup
	for i, a := range to {
		wg.Go(func() {
			defer panics.Recover(p.r.log, func(error) { again[i] = true })
			status, reason, err := p.upload(ctx, a, doc)
			log := p.r.log.With("authority", a.Nickname)
			switch {
			case err != nil:
				again[i] = true
				if ctx.Err() == nil {
					log.Info("the descriptor could not be uploaded", "err", err)
				}
			case status == http.StatusOK:
				p.mu.Lock()
				p.accepted[a.RSA] = time.Now()
				p.mu.Unlock()
				log.Info("an authority accepted the descriptor")
			case status == http.StatusBadRequest || status == http.StatusForbidden:
				log.Warn("an authority refuses the descriptor", "status", status, "reason", reason)
			default:
				again[i] = true
				log.Info("an authority did not take the descriptor", "status", status, "reason", reason)
			}
		})
	}
	wg.Wait()
	var rest []netdir.Authority
	for i, a := range to {
		if again[i] {
			rest = append(rest, a)
		}
	}
	return rest
}

// dial connects to an authority's DirPort.
func (p *publisher) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if dial := p.r.cfg.Dial; dial != nil {
		return dial(ctx, to)
	}
	d := net.Dialer{LocalAddr: outbound.Local(p.r.cfg.Outbound.OR, to.Addr()), Control: outbound.Late}
	return d.DialContext(ctx, "tcp", to.String())
}

// upload posts the document through a directory stream of one hop or, if that
// fails, to the DirPort.
func (p *publisher) upload(ctx context.Context, a netdir.Authority, doc []byte) (status int, reason string, err error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var conn io.ReadWriteCloser
	to := a.DirPort
	if len(a.ORPorts) > 0 {
		to = a.ORPorts[0]
		conn, err = p.r.beginDir(ctx, linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts})
	} else {
		err = fault.New(fault.Config, "no ORPort of the authority is known")
	}
	if err != nil && a.DirPort.IsValid() {
		to = a.DirPort
		conn, err = p.dial(ctx, to)
	}
	if err != nil {
		return 0, "", err
	}
	stop := context.AfterFunc(ctx, panics.Contain(p.r.log, nil, func() { conn.Close() }))
	defer stop()
	defer conn.Close()
	head := dirclient.Anonymous("POST", "/tor/", to, fmt.Sprint("Content-Length: ", len(doc)))
	if _, err := conn.Write(append(head, doc...)); err != nil {
		return 0, "", fault.New(fault.Network, "upload: %w", err)
	}
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxReply)), nil)
	if err != nil {
		return 0, "", fault.New(fault.Network, "upload: the answer: %w", err)
	}
	res.Body.Close()
	return res.StatusCode, res.Status, nil
}
