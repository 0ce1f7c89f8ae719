package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/upstream"
)

// Exit codes of chive exec, which are those of env and timeout: all others are the program's.
const (
	exitExec     = 125 // chive itself failed
	exitNoStart  = 126 // the program cannot be started
	exitNotFound = 127
)

// execOptions are what chive exec was told.
type execOptions struct {
	socks       string // the port of a proxy that runs; empty: a client of chive's own
	noNamespace bool
	maxConns    int
	start       time.Duration
	quiet       bool
}

// execCommand runs a program whose connections go through the network.
func execCommand() *cobra.Command {
	o := execOptions{maxConns: 512, start: 3 * time.Minute}
	c := &cobra.Command{
		Use:   "exec PROGRAM [ARGUMENT...]",
		Short: "Run a program whose connections go through the network, or nowhere",
		Long: `Run a program whose connections go through the network, or nowhere. The program needs no proxy settings, and
no support for proxies: Linux gives it a network of its own (namespaces), which has no other way out. This works without
root where the kernel lets users make namespaces.

TCP to any address and port goes through the client, on circuits of its own. Every name that the program looks up gets
an address of 100.64.0.0/10, which stands for the name: the exit, or the onion service, gets the name with the connection.
Other UDP, ICMP and all else is refused at once. 127.0.0.1 is the program's own, and leads to no other program.

If a chive proxy runs with the data directory, its client carries the connections; --socks names the SOCKS port of any
other proxy for Tor that runs. Otherwise this command has a client of its own, and starts the program when it is ready.

The program has no variables for proxies, sees only its own processes, and has no capabilities; it runs as the same
user, with the same files and the same terminal. When it ends, all processes that it left are ended. A program that means harm can leave
messages for other programs, in files or through services such as D-Bus: docs/exec.md says what is not covered.

Exit codes: the program's; 128 and its number if a signal ended the program; 127 there is no such program, 126 it cannot be
started; 125 chive failed, 2 a mistake in the arguments.`,
		Example: `  chive exec -- curl https://check.torproject.org/api/ip
  chive exec -- ssh user@server.example
  chive exec --socks 127.0.0.1:9050 -- bash`,
		Args: cobra.MinimumNArgs(1),
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the program's name is the program's
	f.StringVar(&o.socks, "socks", "", "`ADDR` of the SOCKS port of a proxy that runs: a port, IP:PORT or unix:PATH")
	f.BoolVar(&o.noNamespace, "no-namespace", false, "only set the variables by which many programs find a proxy: NO GUARANTEE that all connections go there")
	f.IntVar(&o.maxConns, "max-connections", o.maxConns, "`NUMBER` of connections that the program may have at a time")
	f.DurationVar(&o.start, "start-timeout", o.start, "`TIME` until the client must be ready; 0: no limit")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	s := daemon.NewClientSettings()
	load := bind(c, s)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := load(c.Context()); err != nil {
			return err
		}
		s.Quieter()
		if err := errors.Join(s.Check(), o.check()); err != nil {
			return err
		}
		path, err := exec.LookPath(args[0])
		if errors.Is(err, os.ErrPermission) {
			return codedError{noProgram(err), exitNoStart}
		} else if err != nil {
			return codedError{noProgram(err), exitNotFound}
		}
		err = o.run(c.Context(), s, path, args, progress.Share(c.ErrOrStderr()))
		if err == nil || errors.As(err, new(ExitError)) || errors.As(err, new(codedError)) {
			return err
		}
		return codedError{err, exitExec}
	}
	return c
}

// noProgram says why a program is not found or cannot be started; package os/exec would say
// "exec" once more, and the program's name twice.
func noProgram(err error) error {
	name := ""
	if e := new(exec.Error); errors.As(err, &e) {
		name, err = e.Name, e.Err
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fault.New(fault.Local, "the program %q is not in PATH: %w", name, err)
	}
	return fault.New(fault.Local, "the program %q: %w", name, fault.Why(err))
}

func (o *execOptions) check() error {
	if o.maxConns < 1 || o.maxConns > 1<<16 {
		return fault.New(fault.Config, "--max-connections: %d is not from 1 to %d", o.maxConns, 1<<16)
	}
	if o.start < 0 {
		return fault.New(fault.Config, "--start-timeout is below zero")
	}
	if o.socks == "" {
		return nil
	}
	if err := socks.CheckAddr(o.socks); err != nil {
		return fault.New(fault.Config, "--socks: %w", err)
	}
	if o.noNamespace && strings.HasPrefix(o.socks, "unix:") {
		return fault.New(fault.Config, "--socks: programs that look for a proxy in variables need an IP address and port")
	}
	return nil
}

// run runs the program, and returns its exit code as an ExitError.
func (o *execOptions) run(ctx context.Context, s *daemon.Settings, path string, args []string, terminal io.Writer) error {
	cfg, err := s.ClientConfig(terminal)
	if err != nil {
		return err
	}
	begin := runInNamespace
	if o.noNamespace {
		begin = runWithVariables
	}
	p := program{path: path, args: args, log: cfg.Logger, maxConns: o.maxConns}
	code, err := begin(ctx, &p, func() (way, func() error, error) { return o.way(ctx, s, cfg, terminal) })
	if err == nil && code != 0 {
		return ExitError{code}
	}
	if err != nil && code != 0 {
		return codedError{err, code}
	}
	return err
}

// program is what chive exec runs.
type program struct {
	path     string
	args     []string // with its name
	log      *slog.Logger
	maxConns int
}

// way is how the program's connections reach the network.
type way struct {
	client.Asker
	socks string // the address of the proxy that runs already; empty: there is none
	login string // a user name and a password, which keep the program's streams apart
}

// opener makes a way, and returns when it is ready. end closes it.
type opener func() (w way, end func() error, err error)

// way finds or makes a client.
func (o *execOptions) way(ctx context.Context, s *daemon.Settings, cfg chive.Config, terminal io.Writer) (way, func() error, error) {
	if o.start > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.start, fault.New(fault.Timeout, "the client is not ready after %s (--start-timeout)", o.start))
		defer cancel()
	}
	none := func() error { return nil }
	if o.socks != "" {
		w, err := throughSOCKS(ctx, o.socks)
		return w, none, err
	}
	own, err := chive.New(cfg)
	if errors.Is(err, role.ErrInUse) {
		running, joinErr := s.JoinClient(ctx)
		if joinErr == nil {
			joinErr = daemon.AwaitReady(ctx, cfg.DataDir)
		}
		if joinErr != nil {
			return way{}, nil, fault.New(fault.KindOf(joinErr), "the data directory %s is in use, and the program cannot use the client that does: %w", cfg.DataDir, joinErr)
		}
		return way{Asker: onlyDials(func(ctx context.Context, host string, port uint16) (net.Conn, error) {
			return running.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		})}, none, nil
	}
	if err != nil {
		return way{}, nil, err
	}
	hide := func() {}
	if !o.quiet {
		hide = daemon.ShowStart(own, terminal, cfg.Logger)
	}
	err = own.Wait(ctx)
	hide()
	if err != nil {
		return way{}, nil, errors.Join(fault.New(fault.KindOf(err), "the program was not started: %w", err), own.Close())
	}
	return way{Asker: proxydial.Of(own)}, own.Close, nil
}

// throughSOCKS returns the way through the SOCKS port of a proxy that runs. It fails if nobody
// listens there.
func throughSOCKS(ctx context.Context, addr string) (way, error) {
	user, password := "exec", rand.Text()
	proxy, dial, err := socksProxy(addr, user+":"+password)
	if err == nil && !proxy.Listens(ctx, dial) {
		err = fault.New(fault.Local, "nothing listens at the SOCKS port %s: the program was not started", addr)
	}
	if err != nil {
		return way{}, err
	}
	return way{socks: plainAddr(addr), login: user + ":" + password, Asker: onlyDials(func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		return proxy.Dial(ctx, dial, host, port)
	})}, nil
}

// socksProxy returns the proxy at an address, and how to connect to it.
func socksProxy(addr, login string) (*upstream.Proxy, upstream.DialFunc, error) {
	at := plainAddr(addr)
	dial := func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", to.String())
	}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		at = "127.0.0.1:1" // of no use
		dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) { return socks.DialUnix(ctx, path) }
	}
	proxy, err := upstream.Parse("socks5://" + login + "@" + at)
	if err != nil {
		return nil, nil, fault.New(fault.Config, "--socks: %w", err)
	}
	return proxy, dial, nil
}

// plainAddr returns the IP address and port of a listening address.
func plainAddr(addr string) string {
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		return "127.0.0.1:" + addr
	}
	return addr
}

// onlyDials is a client that can only open streams.
type onlyDials func(ctx context.Context, host string, port uint16) (net.Conn, error)

// DialRequest implements client.Asker. The other process isolates the streams.
func (d onlyDials) DialRequest(ctx context.Context, req client.Request) (net.Conn, error) {
	c, err := d(ctx, req.Host, req.Port)
	if err != nil || len(req.Early) == 0 {
		return c, err
	}
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { c.Close() }))
	_, err = c.Write(req.Early)
	if !stop() {
		c.Close()
		return nil, fault.Ended(ctx, "dial: %w", context.Cause(ctx))
	}
	if err != nil {
		c.Close()
		return nil, fault.New(fault.Network, "dial: the first bytes: %w", err)
	}
	return c, nil
}

// StandsFor implements client.Asker: what rules the other process has is not known here.
func (onlyDials) StandsFor(host string) string { return host }

// LookupRequest implements client.Asker.
func (onlyDials) LookupRequest(context.Context, client.Request) ([]stream.Answer, error) {
	return nil, fault.New(fault.Refused, "the client that runs is not asked for addresses and names of hosts")
}

// runWithVariables runs the program with variables that name a proxy.
func runWithVariables(ctx context.Context, p *program, open opener) (int, error) {
	p.log.Warn("the program is only asked to use the proxy: if it does not look at the variables, or not for all of its connections, these go out in the clear")
	w, end, err := open()
	if err != nil {
		return 0, err
	}
	defer end()
	if w.socks == "" {
		port, login, err := openLoginPort(&w, p)
		if err != nil {
			return 0, err
		}
		defer port.Close()
		w.socks, w.login = port.addr, login
	}
	cmd := exec.Command(p.path, p.args[1:]...)
	cmd.Args = p.args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = proxyVariables(os.Environ(), "socks5h://"+w.login+"@"+w.socks)
	passed, stop := passSignals()
	defer stop()
	if err := cmd.Start(); err != nil {
		return exitNoStart, fault.New(fault.Local, "exec: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go panics.Contain(p.log, nil, func() {
		for {
			select {
			case s := <-passed:
				_ = cmd.Process.Signal(s) // it may have ended
			case <-done:
				return
			}
		}
	})()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 0, fault.New(fault.Local, "exec: %w", err)
	}
	return exitCodeOf(cmd.ProcessState), nil
}

// loginPort is a SOCKS port for one program.
type loginPort struct {
	*socks.Server
	addr string
}

// openLoginPort opens a SOCKS port that takes only those who know a password: other programs of the
// machine do not.
func openLoginPort(w *way, p *program) (*loginPort, string, error) {
	l, err := socks.Listen("127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	user, password := "exec", rand.Text()
	server := socks.NewSOCKS(socks.Config{Dialer: proxydial.Dialer{Client: w.Asker}, Log: p.log, Name: "exec", MaxConns: p.maxConns, Auth: func(ctx context.Context, u, pw string) (context.Context, error) {
		if u != user || pw != password {
			return nil, fault.New(fault.Refused, "this port is one program's")
		}
		return ctx, nil
	}})
	go panics.Contain(p.log, nil, func() {
		if err := server.Serve(l); err != nil {
			p.log.Error("the program's SOCKS port is closed", "err", err)
		}
	})()
	return &loginPort{server, l.Addr().String()}, user + ":" + password, nil
}

// proxyNames are the variables by which programs find a proxy, in small letters.
var proxyNames = []string{"all_proxy", "http_proxy", "https_proxy", "ftp_proxy", "socks_proxy", "no_proxy", "rsync_proxy", "gopher_proxy"}

// withoutProxies returns an environment without these variables.
func withoutProxies(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !isProxyName(name) {
			out = append(out, e)
		}
	}
	return out
}

func isProxyName(name string) bool {
	for _, n := range proxyNames {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// proxyVariables returns an environment that names a proxy for everything. A program that cannot speak
// with it, such as wget, then fails, instead of going out in the clear.
func proxyVariables(env []string, url string) []string {
	out := withoutProxies(env)
	for _, name := range proxyNames[:4] {
		out = append(out, name+"="+url, strings.ToUpper(name)+"="+url)
	}
	return out
}
