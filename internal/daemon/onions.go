package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/site"
)

// onionListener has the methods of *chive.OnionListener that this package needs.
type onionListener interface {
	Address() string
	WaitPublished(context.Context) error
	CheckReload(chive.OnionConfig) error
	Reload(chive.OnionConfig) error
	Status() chive.OnionStatus
	Leave(context.Context) error
	net.Listener
}

var _ onionListener = (*chive.OnionListener)(nil)

// onions hosts the onion services of a process. They come and go with SIGHUP.
type onions struct {
	listen func(chive.OnionConfig) (onionListener, error)
	log    *slog.Logger

	mu    sync.Mutex // held while services begin and change; guards all, last, say, ctx and going
	all   []*onionHost
	last  int                   // number of the newest one
	say   func(lines ...string) // nil before watch
	ctx   context.Context       // of watch
	calls sync.WaitGroup        // that wait for a publication, or for the end of a service
	going map[string]*leaving   // by directory: removed, and still in their fleets
}

// leaving is a service that leaves its fleet before it ends.
type leaving struct {
	hurry context.CancelFunc // it ends at once
	done  chan struct{}      // it has ended
}

func newOnions(c Client, log *slog.Logger) *onions {
	return &onions{log: log, listen: func(cfg chive.OnionConfig) (onionListener, error) {
		l, err := c.Listen(context.Background(), cfg)
		if err != nil {
			return nil, err // not a nil listener in an interface
		}
		return l, nil
	}}
}

// onionHost is a service that runs.
type onionHost struct {
	onionListener
	dir   string // absolute
	label string // in lines and metrics
	asked string // name, as configured
	hosting
	site *site.Server // nil: no folder
}

// Close ends the service.
func (h *onionHost) Close() error {
	var err error
	if h.site != nil {
		err = h.site.Close()
	}
	return errors.Join(err, h.onionListener.Close())
}

// name returns what follows a word in a line.
func (h *onionHost) suffix() string {
	if h.single {
		return ""
	}
	return " " + h.label
}

func (h *onionHost) line() []string {
	if h.hide {
		return nil
	}
	return []string{"onion " + h.Address() + h.suffix()}
}

// start hosts services, all or none.
func (o *onions) start(all []hosting) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	o.all, err = o.open(nil, all)
	return err
}

// open opens services beside others, all or none: it returns the others with them, or the
// others alone. The caller has the mutex.
func (o *onions) open(others []*onionHost, more []hosting) ([]*onionHost, error) {
	all := slices.Clone(others)
	for _, h := range more {
		host, err := o.openOne(all, h)
		if err != nil {
			return others, errors.Join(err, closeAll(all[len(others):]))
		}
		all = append(all, host)
	}
	return all, nil
}

// openOne opens a service beside others. The caller has the mutex.
func (o *onions) openOne(others []*onionHost, h hosting) (*onionHost, error) {
	dir, err := filepath.Abs(h.KeyDir)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if l := o.going[dir]; l != nil { // it is wanted again, and its directory is locked
		l.hurry()
		<-l.done
		delete(o.going, dir)
	}
	o.last++
	label, asked := h.Name, h.Name
	if label == "" {
		label = strconv.Itoa(o.last)
	}
	for slices.ContainsFunc(others, func(other *onionHost) bool { return other.label == label }) {
		label += "_" // somebody's name is a number
	}
	if !h.single {
		h.Name = label
	}
	l, err := o.listen(h.OnionConfig)
	if err != nil {
		return nil, o.explain(dir, err)
	}
	for _, other := range others {
		if other.Address() == l.Address() {
			return nil, errors.Join(fault.New(fault.Config, "onion service %s: its key is also in %s; one program hosts a service once", dir, other.dir), l.Close())
		}
	}
	host := &onionHost{onionListener: l, dir: dir, label: label, asked: asked, hosting: h}
	if err := o.openFolder(host); err != nil {
		return nil, errors.Join(o.explain(dir, err), l.Close())
	}
	return host, nil
}

// explain names the service in an error.
func (o *onions) explain(dir string, err error) error {
	if !strings.Contains(err.Error(), dir) {
		err = fault.New(fault.KindOf(err), "onion service %s: %w", dir, err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fault.New(fault.KindOf(err), "%w (with --sandbox, only the directories that were named at the start can be used)", err)
	}
	return err
}

// lines returns a line for each service whose address is not hidden.
func (o *onions) lines() (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.all {
		lines = append(lines, h.line()...)
	}
	return lines
}

// watch says which services are published, until ctx ends. It waits until those that are
// there now are.
func (o *onions) watch(ctx context.Context, say func(lines ...string)) (published <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx, o.say = ctx, say
	var all []<-chan struct{}
	for _, h := range o.all {
		all = append(all, o.announce(h))
	}
	out := make(chan struct{})
	o.calls.Go(panics.Contain(o.log, nil, func() {
		defer close(out)
		for _, done := range all {
			<-done
		}
	}))
	return out
}

// announce says when a service is published. The channel closes then, and when the
// service or the context ends. The caller has the mutex.
func (o *onions) announce(h *onionHost) <-chan struct{} {
	done, ctx, say := make(chan struct{}), o.ctx, o.say
	o.calls.Go(panics.Contain(o.log, nil, func() {
		defer close(done)
		if h.WaitPublished(ctx) == nil {
			say("published" + h.suffix())
		}
	}))
	return done
}

// reload hosts other services, or the same ones with other settings. Services that stay
// keep their circuits. First it checks the services that stay and opens the new ones, then
// it calls rest, for what else belongs to this reload. After an error from these, nothing
// has changed. Later errors are a partly: all is in use but what they name.
func (o *onions) reload(next []hosting, rest func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep, hide, folders := map[string]chive.OnionConfig{}, map[string]bool{}, map[string]*folder{}
	var fresh []hosting
	for _, h := range next {
		dir, err := filepath.Abs(h.KeyDir)
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		i := slices.IndexFunc(o.all, func(have *onionHost) bool { return have.dir == dir })
		if i < 0 {
			h.single = false
			fresh = append(fresh, h)
			continue
		}
		cfg, have := h.OnionConfig, o.all[i]
		cfg.KeyDir = have.hosting.KeyDir
		if cfg.Name == have.asked {
			cfg.Name = have.hosting.Name // its number, perhaps. CheckReload refuses another name
		}
		if (h.folder == nil) != (have.folder == nil) {
			return fault.New(fault.Config, "onion service %s: dir: whether it shows a folder of files changes at the next start", dir)
		}
		if err := have.CheckReload(cfg); err != nil {
			return o.explain(dir, err)
		}
		keep[dir], hide[dir], folders[dir] = cfg, h.hide, h.folder
	}
	var stay, gone []*onionHost
	for _, h := range o.all {
		if _, ok := keep[h.dir]; ok {
			stay = append(stay, h)
		} else {
			gone = append(gone, h)
		}
	}
	all, err := o.open(stay, fresh)
	if err == nil {
		if err = rest(); err != nil {
			err = errors.Join(err, closeAll(all[len(stay):]))
		}
	}
	if err != nil {
		return err
	}
	o.all = all
	var errs []error
	for _, h := range gone {
		errs = append(errs, o.remove(h))
	}
	for _, h := range stay {
		if err := h.Reload(keep[h.dir]); err != nil {
			errs = append(errs, o.explain(h.dir, err))
		}
		if err := h.changeFolder(folders[h.dir]); err != nil {
			errs = append(errs, o.explain(h.dir, err))
		}
		shown := h.hide && !hide[h.dir]
		if h.hide = hide[h.dir]; shown && o.say != nil {
			o.say(h.line()...)
		}
	}
	if o.say != nil {
		for _, h := range all[len(stay):] {
			o.say(h.line()...)
			o.announce(h)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return partly{err}
	}
	return nil
}

// remove ends a service that is no longer wanted. A host of a fleet leaves it first; nothing
// waits for that. The caller has the mutex.
func (o *onions) remove(h *onionHost) error {
	o.log.Info("an onion service is no longer hosted", "service", h.label)
	if !h.Fleet {
		return h.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &leaving{hurry: cancel, done: make(chan struct{})}
	if o.going == nil {
		o.going = map[string]*leaving{}
	}
	o.going[h.dir] = l
	o.calls.Go(panics.Contain(o.log, nil, func() {
		defer cancel()
		defer close(l.done)
		o.leave(ctx, h)
		if err := h.Close(); err != nil {
			o.log.Warn("the end of an onion service", "service", h.label, "err", err)
		}
	}))
	return nil
}

// status returns the state of each service.
func (o *onions) status() (out []chive.OnionStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.all {
		st := h.Status()
		st.Name = h.label
		out = append(out, st)
	}
	return out
}

func closeAll(hosts []*onionHost) error {
	var errs []error
	for _, h := range hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// close ends all services.
func (o *onions) close() error {
	defer o.calls.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.going {
		l.hurry()
	}
	all := o.all
	o.all = nil
	return closeAll(all)
}

// leaveAll has the services leave their fleets, so that clients go to other hosts. It
// returns when their clients are done, when they have had time for that, or when ctx ends.
func (o *onions) leaveAll(ctx context.Context) {
	var calls sync.WaitGroup
	hosts, going := o.hosts()
	for _, h := range hosts {
		calls.Go(panics.Contain(o.log, nil, func() { o.leave(ctx, h) }))
	}
	for _, l := range going {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
	calls.Wait()
}

// leave has a service leave its fleet.
func (o *onions) leave(ctx context.Context, h *onionHost) {
	if err := h.Leave(ctx); err != nil {
		o.log.Warn("an onion service did not leave its fleet: clients go on to ask for this host for some minutes", "service", h.label, "err", err)
	}
}

// hosts returns the services, and those that leave their fleets.
func (o *onions) hosts() ([]*onionHost, []*leaving) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all), slices.Collect(maps.Values(o.going))
}
