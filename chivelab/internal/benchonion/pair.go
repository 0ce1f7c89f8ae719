package benchonion

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// services are the target's services that an onion service leads to. The virtual ports
// are the target's own.
var services = []target.Service{target.Echo, target.Source, target.Sink}

// pair is an onion service and a client that reaches it.
type pair struct {
	name    string
	socks   string // the client's port
	host    string // the service's address
	echo    string // the target's echo service
	client  int    // processes
	service int
	// tor and stranger are the service and the client, if they are C tor's.
	tor, stranger *ctor.Node
	users         atomic.Int64
	closes        []func() error
}

func (p *pair) onClose(f func() error) { p.closes = append(p.closes, f) }

// close ends both, and ignores errors.
func (p *pair) close() {
	for i := len(p.closes) - 1; i >= 0; i-- {
		_ = p.closes[i]()
	}
}

// dial returns a way to connect to the service: the port of an address of the target
// chooses what to connect to. Connections with the same user share a circuit; if user
// is empty, each has its own.
func (p *pair) dial(user string) measure.Dial {
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return p.connect(ctx, p.host, user, addr) }
}

func (p *pair) connect(ctx context.Context, host, user, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if user == "" {
		user = fmt.Sprint("alone ", p.users.Add(1))
	}
	d := socksclient.Dialer{Proxy: p.socks, User: user, Pass: "x"}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

// subject is the pair for a measurement, with connections of the given user.
func (p *pair) subject(user string) measure.Subject {
	return measure.Subject{Name: p.name, Dial: p.dial(user), Processes: []measure.Process{{Name: "client", PID: p.client}, {Name: "service", PID: p.service}}}
}

// awaitPause is the pause before a client tries again to reach a new service.
const awaitPause = 500 * time.Millisecond

// await waits until the client reaches the service.
func (p *pair) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := p.hello(ctx, p.host)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%s: the service cannot be reached: %w", p.name, err)
		case <-time.After(awaitPause):
		}
	}
}

// hello connects to a service over a circuit of its own, and gets one byte from it.
func (p *pair) hello(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	c, err := p.connect(ctx, host, "", p.echo)
	if err != nil {
		return err
	}
	defer c.Close()
	return exchange(ctx, c)
}

// helloTime bounds one connection with its first byte.
const helloTime = 20 * time.Second

// exchange sends a byte to an echo service, and reads it.
func exchange(ctx context.Context, c net.Conn) error {
	if end, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(end); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	b := []byte{1}
	if _, err := c.Write(b); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	_, err := c.Read(b)
	return fault.Wrap(fault.Network, err)
}

// torPair starts C tor's service, with more lines of its configuration, and C tor's client.
func (r *run) torPair(ctx context.Context, n *torNet, more ...string) (p *pair, err error) {
	p = &pair{name: "C tor", echo: r.target.Addr(target.Echo)}
	dir, err := os.MkdirTemp(r.dir, "service")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	lines := []string{"HiddenServiceDir " + dir}
	for _, s := range services {
		addr := r.target.Addr(s)
		_, port, _ := strings.Cut(addr, ":")
		lines = append(lines, "HiddenServicePort "+port+" "+addr)
	}
	lines = append(lines, more...)
	service, err := n.tor.AddClient(ctx, "", lines...)
	if err != nil {
		return nil, err
	}
	p.onClose(service.Kill)
	p.tor = service
	client, err := n.tor.AddClient(ctx, "", "MaxCircuitDirtiness 1 hour")
	if err != nil {
		p.close()
		return nil, err
	}
	p.onClose(client.Kill)
	p.stranger = client
	p.client, p.service, p.socks = client.PID(), service.PID(), client.SOCKS.String()
	host, err := os.ReadFile(filepath.Join(dir, "hostname"))
	if err == nil {
		err = client.AwaitBootstrap(ctx)
	}
	if err != nil {
		p.close()
		return nil, fault.Wrap(fault.Local, err)
	}
	p.host = strings.TrimSpace(string(host))
	return p, nil
}

// chivePair starts Chive's service, with more flags, and Chive's client.
func (r *run) chivePair(ctx context.Context, name string, n *network, more ...string) (p *pair, err error) {
	p = &pair{name: name, echo: r.target.Addr(target.Echo)}
	defer func() {
		if err != nil {
			p.close()
			p = nil
		}
	}()
	dir, err := os.MkdirTemp(r.dir, "pair")
	if err != nil {
		return p, fault.Wrap(fault.Local, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	service, said, err := r.serve(ctx, n, filepath.Join(dir, "service"), append(r.profile("service, "+name), more...))
	if err != nil {
		return p, err
	}
	p.onClose(r.end(service))
	p.service, p.host = service.PID(), said["onion"]
	args := append([]string{"proxy", "--network", n.file, "--data-dir", filepath.Join(dir, "client"), "--socks", "127.0.0.1:0",
		"--max-circuit-dirtiness", "1h", "--max-connections", "15000"}, r.profile("client, "+name)...)
	client, said, err := child.Start(ctx, r.Log, r.Program, args...)
	if err != nil {
		return p, err
	}
	p.onClose(r.end(client))
	p.client, p.socks = client.PID(), said["socks"]
	return p, nil
}

// serve runs "chive onion serve" until its service is published.
func (r *run) serve(ctx context.Context, n *network, dir string, more []string) (*child.Process, map[string]string, error) {
	args := append([]string{"onion", "serve", "--network", n.file, "--data-dir", filepath.Join(dir, "client"), "--key-dir", filepath.Join(dir, "key")}, more...)
	for _, s := range services {
		addr := r.target.Addr(s)
		_, port, _ := strings.Cut(addr, ":")
		args = append(args, port+"="+addr)
	}
	return child.Start(ctx, r.Log, r.Program, args...)
}

// end returns how to end one of Chive's processes: gently if it has to write its
// profile.
func (r *run) end(p *child.Process) func() error {
	if r.Profiles != "" {
		return p.Drain
	}
	return p.Kill
}

// site is what is measured with one scheduler of C tor.
type site struct {
	*run
	tor   *torNet
	pairs []*pair // C tor's, Chive's over C tor's relays, all Chive
	out   *Network
}

// open starts the pairs that are compared, and waits until they work.
func (s *site) open(ctx context.Context) error {
	s.Progress("starting clients and services")
	for _, start := range []func() (*pair, error){
		func() (*pair, error) { return s.torPair(ctx, s.tor) },
		func() (*pair, error) { return s.chivePair(ctx, "Chive", &s.tor.network) },
		func() (*pair, error) { return s.chivePair(ctx, "all Chive", &s.chive.network) },
	} {
		p, err := start()
		if err != nil {
			return err
		}
		s.pairs = append(s.pairs, p)
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) close() {
	for _, p := range s.pairs {
		p.close()
	}
}

// measure measures the pairs together. Every connection that is timed has a rendezvous
// of its own; all transfers share one.
func (s *site) measure(ctx context.Context) error {
	fresh, shared := make([]measure.Subject, len(s.pairs)), make([]measure.Subject, len(s.pairs))
	for i, p := range s.pairs {
		fresh[i], shared[i] = p.subject(""), p.subject("shared")
	}
	transfers, paced, burst := s.Measure, s.Measure, s.Measure
	transfers.Connects = 0
	paced.Streams, paced.Pings = nil, 0
	burst.Streams, burst.Pings, burst.Pause = nil, 0, 0
	var err error
	if s.out.Pairs, err = measure.Together(ctx, s.target, transfers, shared...); err != nil {
		return err
	}
	times, err := measure.Together(ctx, s.target, paced, fresh...)
	if err != nil {
		return err
	}
	for i, t := range times {
		s.out.Pairs[i].Connect = t.Connect
	}
	if s.Measure.Connects == 0 {
		return nil
	}
	if times, err = measure.Together(ctx, s.target, burst, fresh...); err != nil {
		return err
	}
	for _, t := range times {
		s.out.Burst = append(s.out.Burst, t.Connect)
	}
	return nil
}
