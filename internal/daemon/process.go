package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
	draw "github.com/chivenet/chive/internal/progress"
)

// node is a running client with its ports, a running relay or a running
// authority.
type node interface {
	dataDir() string
	// lines returns lines with its ports and identities, for people and scripts.
	lines() []string
	status() any // as JSON; it begins with a rolePrefix
	metrics() http.Handler
	// watch calls ready when the node serves, with more lines, and say with lines at any
	// time. It returns when the node ends by itself, which is an error, or when ctx does.
	watch(ctx context.Context, say, ready func(lines ...string)) error
	// reload applies the live settings of a role of the same kind. After an error nothing
	// has changed, unless the error is a partly.
	reload(role) error
	// shutdown lets open connections and circuits continue for some time; when
	// ctx ends, it ends them.
	shutdown(ctx context.Context) error
	close() error
}

// Process is a node, run as a process.
type Process struct {
	Settings *Settings

	// Out receives the node's lines, and "ready" when it serves; Err receives the
	// log, and a progress bar if it is a terminal.
	Out, Err io.Writer

	// Hangup asks to reload, Stop to drain and end; a second Stop ends at once.
	// They usually carry SIGHUP and SIGTERM.
	Hangup, Stop <-chan os.Signal

	// Upgrade asks to drain with open ports and to let Successor take over, SIGUSR2 where there
	// is one; a second request does not wait for what is open. Nil: never.
	Upgrade   <-chan os.Signal
	Successor Successor

	// Controllers answer those who connect to the ports of the option control.
	Controllers Controllers

	log   *slog.Logger
	level *slog.LevelVar
	ring  logRing
	file  *logFile // nil: the log goes to Err
	node  node
	heap  heapLimit
	fail  chan error // why a port of the process itself ended

	reloads chan chan<- error // requests of the status socket
	ending  chan struct{}     // closed when nobody answers them any more

	controls *controlPorts // nil: there are none
	asked    chan bool     // by controllers to end; true: at once
	halt     bool          // what is open is cut at the end

	kept *inherit.Kept // the ports for the successor; nil: the process ends with this program

	mistake string   // of the last reload; empty: it was good
	waiting []string // options whose change waits for the next start

	mu       sync.Mutex
	inEffect map[string]string // guarded by mu: the values of all options
	latest   *Settings         // guarded by mu: of the last reload, of which what is live is in effect; nil: there was none
}

// ErrKilled is the error of Run after two requests to stop: it has closed
// connections.
var ErrKilled = errors.New("stopped without draining")

// maxOpening is how long the start may go on after a request to stop: it may wait for something
// that nothing ends, such as a pipe to which nobody writes.
const maxOpening = 3 * time.Second

// Run runs the node until it is told to stop, ctx ends, or it fails for good. If it is told to let its
// successor take over, it returns only if that fails.
func (p *Process) Run(ctx context.Context) error {
	if err := inherit.Take(); err != nil { // first, so that no program that is started sees the variables
		return err
	}
	return p.succeed(p.run(ctx))
}

func (p *Process) run(ctx context.Context) (err error) {
	opened := make(chan opening, 1)
	go func() {
		defer panics.Recover(nil, func(err error) { opened <- opening{func() error { return nil }, err} })
		closeAll, err := p.open()
		opened <- opening{closeAll, err}
	}()
	var o opening
	stopped := false
	select {
	case o = <-opened:
	case <-p.Stop:
		stopped = true
		select {
		case o = <-opened: // its ports may have taken connections already
		case <-time.After(maxOpening):
			return nil // the process ends; what waits, ends with it
		}
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if o.err != nil {
		return o.err
	}
	if !stopped {
		if err := p.serve(ctx); err != nil {
			return err
		}
	}
	return p.drain(ctx)
}

// opening is what came of the start: close closes what is open, also after an error.
type opening struct {
	close func() error
	err   error
}

// open opens all that the node needs.
func (p *Process) open() (closeAll func() error, err error) {
	var open []func() error
	closeAll = func() (err error) {
		for _, f := range slices.Backward(open) {
			err = errors.Join(err, f())
		}
		return err
	}
	s := p.Settings
	if err := s.Check(); err != nil {
		return closeAll, err
	}
	collectOften(s.role)
	c := s.role.common()
	p.Err = draw.Share(p.Err)
	to, file, err := openLog(c.LogFile, p.Err)
	if err != nil {
		return closeAll, s.Explain(options.Wrong("LogFile", "%w", err))
	}
	p.file = file
	open = append(open, file.close)
	p.level = new(slog.LevelVar)
	p.level.Set(c.LogLevel)
	p.log = logline.New(p.level, c.LogFormat, to, &p.ring)
	if len(controllingOf(s.role).Control) > 0 {
		if p.Controllers == nil {
			return closeAll, s.Explain(options.Wrong("Control", "this program has no answers for controllers"))
		}
		p.log = slog.New(slog.NewMultiHandler(p.log.Handler(), atLeast{p.level, p.Controllers.Handler()}))
	}
	c.sample()
	s.warn(p.log)
	if p.node, err = s.role.open(p.Err, p.log); err != nil {
		return closeAll, s.Explain(err)
	}
	open = append(open, p.node.close)
	p.heap.keep(s.role.maxMemory())
	p.fail = make(chan error, 1)
	p.reloads, p.ending = make(chan chan<- error), make(chan struct{})
	p.asked = make(chan bool, 2)
	p.inEffect = s.Texts(false)
	side := sidePorts{dataDir: p.node.dataDir(), answers: p.answers(), metrics: c.Metrics, names: c.MetricsHosts, handler: p.node.metrics(), profiles: c.Profiles, fail: p.failed}
	lines, stop, err := side.open(p.log)
	if err != nil {
		return closeAll, s.Explain(err)
	}
	open = append(open, func() error { stop(); return nil })
	if p.controls, err = p.openControls(); err != nil {
		return closeAll, s.Explain(err)
	}
	open = append(open, p.controls.close)
	lines = append(lines, p.controls.lines()...)
	open = append(open, func() error { close(p.ending); return nil })
	if err := inherit.Left(p.log); err != nil {
		return closeAll, err
	}
	// All files and ports are open: from here on, the process needs no further
	// access.
	if err := s.role.confinement(p.node.dataDir()).reading(s.File(), c.NetworkFile).logging(c.LogFile).sockets(c.Metrics, c.Profiles).controllers(controllingOf(s.role).Control).running(p.Successor.Path).confine(c.Sandbox, p.log); err != nil {
		return closeAll, err
	}
	for _, l := range append(p.node.lines(), lines...) {
		fmt.Fprintln(p.Out, l)
	}
	return closeAll, nil
}

// failed ends the process, because a port of its own has ended by itself.
func (p *Process) failed(err error) {
	select {
	case p.fail <- err:
	default: // an earlier failure ends the process
	}
}

// serve follows the node and the signals, until it is told to stop.
func (p *Process) serve(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var mu sync.Mutex
	say := func(lines ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range lines {
			fmt.Fprintln(p.Out, l)
		}
	}
	go func() {
		defer panics.Recover(p.log, func(err error) { ended <- err })
		ended <- p.node.watch(watching, say, func(lines ...string) {
			debug.FreeOSMemory() // what only the start needed
			go panics.Contain(p.log, nil, func() { p.heap.follow(watching) })()
			go panics.Contain(p.log, nil, func() { newProcessors(p.log).run(watching) })()
			go panics.Contain(p.log, nil, func() { newRests(p.Settings.role, debug.FreeOSMemory).run(watching) })()
			say(append(lines, "ready")...)
			p.notify(daemon.SdNotifyReady)
		})
	}()
	leave := func(err error) error {
		stop()
		select {
		case <-ended:
		case <-time.After(maxOpening): // it writes a line that nobody reads
		}
		return err
	}
	var tried chan error // of the trial that runs
	for {
		select {
		case err := <-ended:
			stop()
			return err
		case <-p.Upgrade:
			if tried == nil {
				tried = make(chan error, 1)
				go func(to chan<- error) {
					defer panics.Recover(p.log, func(err error) { to <- err })
					to <- p.Successor.try(watching, p.Settings.role.common().Sandbox)
				}(tried)
			}
		case err := <-tried:
			tried = nil
			if err == nil {
				err = p.handOver()
			}
			if err == nil {
				return leave(nil)
			}
			p.log.Error("the program is not replaced, and goes on", "err", err)
		case err := <-p.fail:
			return leave(err)
		case <-ctx.Done():
			return leave(context.Cause(ctx))
		case <-p.Hangup:
			p.reload() // the log has the error
		case done := <-p.reloads:
			done <- p.reload()
		case <-p.Stop:
			return leave(nil)
		case p.halt = <-p.asked:
			return leave(nil)
		}
	}
}

// drain lets open connections continue for some time.
func (p *Process) drain(ctx context.Context) error {
	if p.kept == nil {
		p.notify(daemon.SdNotifyStopping)
		p.log.Info("stopping: nothing new is taken, and what is open may go on for a while")
	} else { // systemd goes on to follow the process
		p.log.Info("handing over: what is open may go on for a while, and new connections wait for the next program")
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	if p.halt {
		cut()
	}
	done := make(chan error, 1)
	go func() {
		defer panics.Recover(p.log, func(err error) { done <- err })
		done <- p.node.shutdown(ctx)
	}()
	for {
		select {
		case err := <-done:
			return err
		case <-p.Hangup:
			p.reload() // the log has the error
		case done := <-p.reloads:
			done <- p.reload()
		case <-p.Upgrade:
			if p.kept != nil {
				cut()
			}
		case <-p.asked: // for the second time, or by a signal before
			if p.kept != nil {
				p.abandon()
				p.notify(daemon.SdNotifyStopping)
			}
			cut()
		case <-p.Stop:
			if p.kept != nil { // that is another wish, and the first time that it is told to stop
				p.abandon()
				p.notify(daemon.SdNotifyStopping)
				continue
			}
			p.log.Warn("told twice to stop: what is open is cut")
			cut()
			<-done // it ended because of the second request
			return ErrKilled
		}
	}
}

// notify sends a state to systemd, if systemd has started this process.
func (p *Process) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.log.Warn("systemd was not told", "state", state, "err", err)
	}
}
