package pt

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/upstream"
)

// ProcessConfig describes a transport process and its task.
type ProcessConfig struct {
	Path       string          // the program
	Args       []string        // its arguments, without its name
	Transports []string        // the transports that it must offer
	StateDir   string          // its own directory, created with mode 0700
	Outbound   netaddr.Sources // the addresses that its connections should come from
	Proxy      *upstream.Proxy // client: the proxy that it must use; nil: none
	Server     *Server         // nil: a client's transports
	Log        *slog.Logger
}

// Server holds the settings for the transports of a bridge.
type Server struct {
	// Bind says where to listen, by transport. Others choose a port, which Chose is
	// told, and listen there again when the process is started again. Chose may be
	// nil.
	Bind       map[string]netip.AddrPort
	Chose      func(transport string, addr netip.AddrPort)
	Options    map[string]ptspec.Args // by transport
	ORPort     netip.AddrPort
	ExtORPort  netip.AddrPort // zero: none
	CookieFile string         // the ExtORPort's cookie file
}

// Process keeps a transport process running: it restarts one that ended, and
// waits longer each time while it keeps failing.
type Process struct {
	cfg    ProcessConfig
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex // guards what follows
	methods map[string]Method
	failed  map[string]error          // transports that it cannot offer
	ready   bool                      // it has listed all transports that it offers
	err     error                     // why it does not run; nil while it starts or runs
	changed chan struct{}             // closed at every change of the above
	chosen  map[string]netip.AddrPort // server: where transports without an address listened last
}

// The time before a process that ended is started again, the time that a process
// has to list its transports, and the time that it has to end by itself.
const (
	restartMin   = 500 * time.Millisecond
	restartMax   = time.Minute
	startTimeout = 30 * time.Second
	stopTimeout  = time.Second
)

// Launch starts the process and returns at once; Method waits for the process.
func Launch(cfg ProcessConfig) *Process {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{cfg: cfg, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	go panics.Contain(cfg.Log, p.broke, func() { p.supervise(ctx) })()
	return p
}

// Close ends the process and returns after it has ended.
func (p *Process) Close() {
	p.cancel()
	<-p.done
}

// Method waits until the process offers a transport, and returns where it
// listens. It fails at once if the process cannot offer it or does not run.
func (p *Process) Method(ctx context.Context, name string) (Method, error) {
	for {
		p.mu.Lock()
		m, ok := p.methods[name]
		err, changed, ready := p.err, p.changed, p.ready
		if p.failed[name] != nil {
			err = p.failed[name]
		}
		p.mu.Unlock()
		switch {
		case ok && ready:
			return m, nil
		case err != nil:
			return Method{}, fault.New(fault.KindOf(err), "transport %s: %w", name, err)
		case ready:
			return Method{}, fault.New(fault.Config, "transport %s: the program does not offer it", name)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Method{}, fault.Ended(ctx, "transport %s: waiting for the program: %w", name, context.Cause(ctx))
		}
	}
}

func (p *Process) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Process) supervise(ctx context.Context) {
	defer close(p.done)
	wait := restartMin
	for ctx.Err() == nil {
		p.update(func() {
			p.methods, p.failed, p.ready, p.err = map[string]Method{}, map[string]error{}, false, nil
		})
		began := time.Now()
		err := p.run(ctx)
		if ctx.Err() != nil {
			err = fault.New(fault.Closed, "it was stopped")
		}
		p.update(func() { p.methods, p.ready, p.err = nil, false, err })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > restartMax {
			wait = restartMin
		}
		p.cfg.Log.Warn("a transport process ended; it will be started again", "transports", p.cfg.Transports, "in", wait, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, restartMax)
	}
}

// run runs the process once. It returns why the process ended.
func (p *Process) run(ctx context.Context) error {
	if err := os.MkdirAll(p.cfg.StateDir, 0o700); err != nil {
		return fault.New(fault.Local, "its state directory: %w", err)
	}
	cmd := exec.Command(p.cfg.Path, p.cfg.Args...)
	cmd.Env = p.env(os.Environ())
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe() // the child learns from its end that the parent has ended
	if err != nil {
		return fault.New(fault.Local, "start: %w", err)
	}
	stdout, output := io.Pipe()
	cmd.Stdout = output
	cmd.WaitDelay = stopTimeout // a child of the process may still have its output when it has ended
	if err := cmd.Start(); err != nil {
		return fault.New(fault.Config, "start: %w", err)
	}
	ended := make(chan struct{})
	go panics.Contain(p.cfg.Log, nil, func() {
		defer close(ended)
		defer output.Close()
		cmd.Wait() // ProcessState says how it ended
	})()
	said := make(chan error, 1)
	go func() {
		defer panics.Recover(p.cfg.Log, func(err error) { said <- err })
		said <- p.listen(stdout)
	}()
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	var why error
	for why == nil {
		select {
		case why = <-said:
			said <- nil // for the wait below
		case <-ctx.Done():
			why = context.Cause(ctx)
		case <-late.C:
			if !p.isReady() {
				why = fault.New(fault.Timeout, "it did not list its transports within %v", startTimeout)
			}
		}
	}
	stdin.Close()
	kill := time.AfterFunc(stopTimeout, func() {
		defer panics.Recover(p.cfg.Log, nil)
		cmd.Process.Kill()
	})
	<-said
	io.Copy(io.Discard, stdout)
	<-ended
	kill.Stop()
	if why == errEOF {
		why = fault.New(fault.Local, "it ended (%v)", cmd.ProcessState)
	}
	return why
}

// broke records that the process is no longer supervised.
func (p *Process) broke(err error) {
	p.update(func() { p.methods, p.ready, p.err = nil, false, err })
}

func (p *Process) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// env is the process's environment (pt-spec 3.2).
func (p *Process) env(ours []string) []string {
	c := &p.cfg
	e := ptspec.Env{StateDir: c.StateDir, ExitOnStdinClose: true, Transports: c.Transports, Outbound: c.Outbound}
	if s := c.Server; s == nil {
		e.Client, e.Proxy = true, c.Proxy
	} else {
		e.Options, e.ORPort, e.ExtORPort, e.CookieFile = s.Options, s.ORPort, s.ExtORPort, s.CookieFile
		e.BindAddrs = map[string]netip.AddrPort{}
		for _, name := range c.Transports {
			e.BindAddrs[name] = p.bindAddr(name)
		}
	}
	env := slices.DeleteFunc(slices.Clone(ours), func(s string) bool { return strings.HasPrefix(s, "TOR_PT_") })
	return append(env, e.Vars()...)
}
