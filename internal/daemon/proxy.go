package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/proxydial"
	life "github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/internal/socks"
)

// DefaultSOCKS is the default address of the SOCKS port, with C tor's port.
const DefaultSOCKS = "127.0.0.1:9050"

// Ports are the settings of a proxy besides its client's Config.
type Ports struct {
	SOCKS, HTTP, DNS, Trans []string // addresses and flags in the form of socks.ParsePort

	TransProxyType                        string // how connections come to Trans
	AutomapHostsOnResolve                 bool
	AutomapHostsSuffixes                  []string
	VirtualAddrNetworkIPv4                string // of the addresses of such hosts
	VirtualAddrNetworkIPv6                string // empty: they have none
	SafeSOCKS, WarnUnsafeSOCKS, TestSOCKS bool

	ExtendedErrors    bool // proposal 304, on every SOCKS port
	IsolateClientAddr bool
	IsolateProtocol   bool
	MaxConnections    int // of each port

	Page string // address of the dashboard; empty: none

	Drain time.Duration `reload:"live"` // how long open connections may go on after SIGTERM
}

// proxyRole is a client. It has ports for other programs, unless it serves a
// single command.
type proxyRole struct {
	Common
	Controlling
	Ports
	Onions Onions
	Config chive.Config // Network and Logger are set later

	ports bool
	start func(chive.Config) (Client, error) // nil: chive.New, with over
	over  client.Over
	ready func(Client) // called before the ports are served; nil: nobody waits for it
	apart []string     // relays that are never used, besides those of ExcludeNodes
}

// Client has the methods of proxydial.Whole that this package needs.
type Client interface {
	client.Asker
	Status() chive.Status
	Reload(chive.Config) error
	NewIdentity()
	Events() (<-chan chive.Event, func())
	Subscribe(chive.EventKinds) (<-chan chive.Event, func())
	WriteMetrics(w io.Writer) error
	WriteMetricsJSON(w io.Writer) error
	Done() <-chan struct{}
	Err() error
	Listen(context.Context, chive.OnionConfig) (*chive.OnionListener, error)
	Silence() // Close follows
	Close() error
}

var _ Client = proxydial.Whole{}

func (r *proxyRole) parts() []options.Part {
	return []options.Part{
		{Table: listeners, Of: &r.Ports, FileOnly: !r.ports}, {Table: anyNetwork, Of: &r.Common}, {Table: options.Client, Of: &r.Config},
		{Table: manners, Of: &r.Ports, FileOnly: !r.ports}, {Table: controlTable, Of: &r.Controlling, FileOnly: !r.ports}, {Table: processTable, Of: &r.Common, FileOnly: !r.ports}, {Table: logTable, Of: &r.Common},
		r.Onions.part(),
	}
}

func (r *proxyRole) maxMemory() uint64 { return r.Config.MaxMemory }

func (r *proxyRole) check() error {
	c, err := r.config(nil)
	if err != nil {
		return err
	}
	var all []hosting
	all, err = r.Onions.hostings()
	if err == nil {
		err = checkPQ(&c, all)
	}
	if err != nil {
		return err
	}
	ports, err := r.all()
	if err == nil {
		err = isolated(ports, &c)
	}
	if err == nil {
		_, err = r.automap()
	}
	if err != nil {
		return err
	}
	if r.ports && len(all) == 0 && len(ports) == 0 {
		return fault.New(fault.Config, "no port is open: give --socks, --http, --dns or --trans an address")
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := checkFolders(&c, all); err != nil {
		return err
	}
	if r.ports { // a command for one's own use opens none of them
		if _, err := r.controls(); err != nil {
			return err
		}
	}
	return canStart(c.DataDir, "ClientTransportPlugins", c.ClientTransportPlugins)
}

// config returns the configuration of the client, with its network and data
// directory filled in.
func (r *proxyRole) config(log *slog.Logger) (chive.Config, error) {
	c := r.Config
	c.Logger = log
	c.ExcludeNodes = slices.Concat(c.ExcludeNodes, r.apart)
	var err error
	if c.Network, err = r.network(); err == nil && c.DataDir == "" {
		c.DataDir, err = chive.DefaultDataDir()
	}
	return c, err
}

func (r *proxyRole) open(w io.Writer, log *slog.Logger) (node, error) {
	cfg, err := r.config(log)
	if err != nil {
		return nil, err
	}
	start := r.start
	if start == nil {
		start = func(c chive.Config) (Client, error) { return startOver(c, r.over) }
	}
	n := &proxyNode{cfg: cfg, list: r.list(), log: log, terminal: w}
	n.drain.Store(int64(r.Drain))
	if n.automap, err = r.automap(); err != nil {
		return nil, err
	}
	// The ports come first, as in C tor: one that another program has is told before the client
	// reads its state and connects to the network, and programs that connect meanwhile wait.
	open, err := r.listen()
	if err != nil {
		return nil, err
	}
	if n.client, err = start(cfg); err != nil {
		closePorts(open)
		return nil, err
	}
	if r.ready != nil {
		r.ready(n.client)
	}
	n.ports = openLocalPorts(&r.Ports, open, n.automap.Dialer(proxydial.Dialer{Client: n.client}), &n.counts, log)
	n.ports.openInner(n.client, cfg.DataDir, &n.counts)
	err = n.openPage(r.Page, log)
	var all []hosting
	if err == nil {
		all, err = r.Onions.hostings()
	}
	if n.onions = newOnions(n.client, log); err == nil {
		err = n.onions.start(all)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func startClient(cfg chive.Config) (Client, error) { return startOver(cfg, client.Over{}) }

func startOver(cfg chive.Config, over client.Over) (Client, error) {
	c, err := client.NewOver(cfg, over)
	if err != nil {
		return nil, err
	}
	return proxydial.Of(c.(*chive.Client)), nil
}

func (r *proxyRole) confinement(dataDir string) confinement {
	c := confinementOf(dataDir, r.Config.ClientTransportPlugins)
	ports, _ := r.Ports.all() // check has seen the error
	for _, p := range ports {
		c = c.sockets(p.Addr)
	}
	c = c.sockets(r.Page).client(&r.Config)
	all, _ := r.Onions.hostings() // check has seen the error
	return c.hosting(all)
}

// client adds the files that a client's options name: a reload reads them again.
func (c confinement) client(cfg *chive.Config) confinement {
	c = c.reading(geoip.UsualFile, cfg.GeoIPFile, cfg.GeoIPv6File)
	for _, s := range append([]string{cfg.Proxy}, cfg.ClientOnionAuth...) {
		if file, ok := strings.CutPrefix(s, "@"); ok {
			c = c.reading(file)
		}
	}
	if cfg.ClientOnionAuthDir != "" {
		c.read = append(c.read, cfg.ClientOnionAuthDir)
	}
	return c
}

// proxyNode is a client with its open ports.
type proxyNode struct {
	cfg      chive.Config // as it was at the start
	list     *networkList
	client   Client
	ports    *localPorts
	automap  *socks.Automap // nil: names are not mapped
	onions   *onions
	counts   metrics.Registry // of the ports
	log      *slog.Logger
	terminal io.Writer // for a progress bar
	drain    atomic.Int64

	closePage func() // nil: there is no page
}

func (n *proxyNode) dataDir() string { return n.cfg.DataDir }
func (n *proxyNode) lines() []string { return append(n.ports.lines, n.onions.lines()...) }
func (n *proxyNode) status() any {
	return proxyReport{isA("proxy", n.list), n.client.Status(), n.onions.status()}
}

// newIdentity forgets the addresses of names, too, as C tor does.
func (n *proxyNode) newIdentity() {
	n.automap.Forget()
	n.client.NewIdentity()
}

func (n *proxyNode) network() *chive.Network { return n.cfg.Network }

func (n *proxyNode) metrics() http.Handler { return proxyMetrics(n.client, &n.counts, n.onions) }

// watch follows the bootstrap, and says which onion services are published.
func (n *proxyNode) watch(ctx context.Context, say, ready func(...string)) error {
	n.onions.watch(ctx, say)
	events, unsubscribe := n.client.Events()
	defer unsubscribe()
	bar := newProgress(n.terminal, n.log)
	defer bar.end()
	isReady := false
	follow := func(b chive.BootstrapStatus) {
		if isReady {
			return // the client logs what it meets from now on
		}
		bar.show(b)
		if b.Ready {
			bar.end()
			ready()
		}
		isReady = b.Ready
	}
	follow(n.client.Status().Bootstrap) // what happened before the subscription
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return fault.New(fault.Closed, "the client has closed")
			}
			if b, ok := e.(*chive.BootstrapEvent); ok {
				follow(b.BootstrapStatus)
			}
		case <-n.client.Done():
			return n.client.Err()
		case err := <-n.ports.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *proxyNode) reload(to role) error {
	r := to.(*proxyRole)
	cfg, err := r.config(n.log)
	if err != nil {
		return err
	}
	all, err := r.Onions.hostings()
	if err != nil {
		return err
	}
	life.KeepFixed(&n.cfg, &cfg)
	return n.onions.reload(all, func() error {
		if err := n.client.Reload(cfg); err != nil {
			return err
		}
		n.drain.Store(int64(r.Drain))
		return nil
	})
}

// shutdown lets open connections finish. Meanwhile hosts of fleets send their clients to
// the others, however short the time for connections is.
func (n *proxyNode) shutdown(ctx context.Context) error {
	var left sync.WaitGroup
	defer left.Wait()
	left.Go(panics.Contain(n.log, nil, func() { n.onions.leaveAll(ctx) }))
	draining, cancel := context.WithTimeout(ctx, time.Duration(n.drain.Load()))
	defer cancel()
	if err := n.ports.shutdown(draining); err != nil {
		n.log.Warn("some connections did not finish in time", "err", err)
	}
	return nil
}

func (n *proxyNode) close() error {
	if n.closePage != nil {
		n.closePage()
	}
	n.client.Silence() // before the ports: programs' connections end now, and exits need not hear of each
	n.ports.close()
	return errors.Join(n.onions.close(), n.client.Close())
}
