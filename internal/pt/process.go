package pt

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// ProcessConfig says what transport process to run, and what for.
type ProcessConfig struct {
	Path       string   // the program
	Args       []string // its arguments, without its name
	Transports []string // what it is asked for
	StateDir   string   // its own directory, made with mode 0700
	Proxy      *url.URL // client: how it must reach the network; nil: directly
	Server     *Server  // nil: a client's transports
	Log        *slog.Logger
}

// Server is what the transports of a bridge are told besides.
type Server struct {
	Bind       map[string]netip.AddrPort // where to listen, by transport; others choose
	Options    map[string]Args           // by transport
	ORPort     netip.AddrPort
	ExtORPort  netip.AddrPort // zero: none
	CookieFile string         // of the ExtORPort
}

// Process keeps a transport process running: one that ends is started again,
// later and later while it fails.
type Process struct {
	cfg    ProcessConfig
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex // guards what follows
	methods map[string]Method
	failed  map[string]error // transports that it can't offer
	ready   bool             // it has said all that it offers
	err     error            // why it doesn't run; nil while it starts or runs
	changed chan struct{}    // closed at every change of the above
}

// How soon a process that ended is started again, and how long one is given
// to say what it offers, and to end by itself.
const (
	restartMin   = 500 * time.Millisecond
	restartMax   = time.Minute
	startTimeout = 30 * time.Second
	stopTimeout  = time.Second
)

// Launch starts the process and returns at once; Method waits for it.
func Launch(cfg ProcessConfig) *Process {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{cfg: cfg, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	go panics.Contain(cfg.Log, p.broke, func() { p.supervise(ctx) })()
	return p
}

// Close ends the process and returns when it is gone.
func (p *Process) Close() {
	p.cancel()
	<-p.done
}

// Method waits until the process offers a transport, and says where. It fails
// at once when the process has said that it can't, or doesn't run.
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
			return Method{}, fault.New(fault.Config, "transport %s: the program doesn't offer it", name)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Method{}, fault.New(fault.Timeout, "transport %s: waiting for the program: %w", name, context.Cause(ctx))
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
		p.cfg.Log.Warn("a transport process has ended; it is started again", "transports", p.cfg.Transports, "in", wait, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, restartMax)
	}
}

// run is one life of the process. It returns why it ended.
func (p *Process) run(ctx context.Context) error {
	if err := os.MkdirAll(p.cfg.StateDir, 0o700); err != nil {
		return fault.New(fault.Local, "its state directory: %w", err)
	}
	cmd := exec.Command(p.cfg.Path, p.cfg.Args...)
	cmd.Env = p.env(os.Environ())
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe() // its end is how a child learns of ours
	if err != nil {
		return fault.New(fault.Local, "start: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fault.New(fault.Local, "start: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fault.New(fault.Config, "start: %w", err)
	}
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
				why = fault.New(fault.Timeout, "it hasn't said what it offers in %v", startTimeout)
			}
		}
	}
	stdin.Close()
	kill := time.AfterFunc(stopTimeout, func() {
		defer panics.Recover(p.cfg.Log, nil)
		cmd.Process.Kill()
		stdout.Close() // a child of its own may hold the other end
	})
	<-said // Wait must not close the pipe under the reader
	io.Copy(io.Discard, stdout)
	cmd.Wait() // ProcessState says how it ended
	kill.Stop()
	if why == errEOF {
		why = fault.New(fault.Local, "it ended (%v)", cmd.ProcessState)
	}
	return why
}

// broke notes that nobody looks after the process any more.
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
	env := slices.DeleteFunc(slices.Clone(ours), func(s string) bool { return strings.HasPrefix(s, "TOR_PT_") })
	set := func(k, v string) { env = append(env, "TOR_PT_"+k+"="+v) }
	set("MANAGED_TRANSPORT_VER", "1")
	set("STATE_LOCATION", c.StateDir)
	set("EXIT_ON_STDIN_CLOSE", "1")
	if c.Server == nil {
		set("CLIENT_TRANSPORTS", strings.Join(c.Transports, ","))
		if c.Proxy != nil {
			set("PROXY", c.Proxy.String())
		}
		return env
	}
	set("SERVER_TRANSPORTS", strings.Join(c.Transports, ","))
	var bind []string
	for _, name := range slices.Sorted(maps.Keys(c.Server.Bind)) {
		bind = append(bind, name+"-"+c.Server.Bind[name].String())
	}
	if bind != nil {
		set("SERVER_BINDADDR", strings.Join(bind, ","))
	}
	if o := serverOptions(c.Server.Options); o != "" {
		set("SERVER_TRANSPORT_OPTIONS", o)
	}
	if c.Server.ORPort.IsValid() {
		set("ORPORT", c.Server.ORPort.String())
	}
	if c.Server.ExtORPort.IsValid() {
		set("EXTENDED_SERVER_PORT", c.Server.ExtORPort.String())
		set("AUTH_COOKIE_FILE", c.Server.CookieFile)
	}
	return env
}

// serverOptions writes TOR_PT_SERVER_TRANSPORT_OPTIONS.
func serverOptions(all map[string]Args) string {
	esc := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `;`, `\;`, `=`, `\=`)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, k := range sortedKeys(all[name]) {
			parts = append(parts, name+":"+esc.Replace(k)+"="+esc.Replace(all[name][k]))
		}
	}
	return strings.Join(parts, ";")
}
