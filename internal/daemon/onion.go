package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/options"
	life "github.com/chivenet/chive/internal/role"
)

// NewOnionSettings returns the default settings of an onion service. ports are the
// command's arguments, which are known once the command line has been parsed.
func NewOnionSettings(ports *[]string) *Settings {
	return newSettings(func() role { return &onionRole{args: ports} })
}

// NewBalanceSettings returns the default settings of a frontend. backends are the
// command's arguments.
func NewBalanceSettings(backends *[]string) *Settings {
	return newSettings(func() role { return &onionRole{args: backends, front: true, tables: Onions{front: true}} })
}

// onionRole is a client that hosts onion services: one by options, and those of the file's
// tables. Or these are frontends. A file may also have the options of a proxy's ports,
// which are not opened.
type onionRole struct {
	Common
	Controlling
	Onion
	balance Front
	tables  Onions
	ports   Ports        // not opened
	Config  chive.Config // Network and Logger are set later

	args  *[]string
	front bool
}

func (r *onionRole) parts() []options.Part {
	first := options.Part{Table: onionTable, Of: &r.Onion}
	if r.front {
		first = options.Part{Table: balanceTable, Of: &r.balance}
	}
	return []options.Part{
		first, {Table: anyNetwork, Of: &r.Common}, {Table: options.Client, Of: &r.Config},
		{Table: listeners, Of: &r.ports, FileOnly: true}, {Table: manners, Of: &r.ports, FileOnly: true},
		{Table: controlTable, Of: &r.Controlling}, {Table: processTable, Of: &r.Common}, {Table: logTable, Of: &r.Common}, r.tables.part(),
	}
}

func (r *onionRole) maxMemory() uint64 { return r.Config.MaxMemory }

// hostings returns the services.
func (r *onionRole) hostings() ([]hosting, error) {
	all, err := r.tables.hostings()
	if err != nil {
		return nil, err
	}
	var own onionOptions = &r.Onion
	none := r.KeyDir == "" && len(r.Ports) == 0 && r.Dir == ""
	if r.front {
		own = &r.balance
		none = r.balance.KeyDir == "" && len(r.balance.Backends) == 0
	}
	if len(all) > 0 && none && len(*r.args) == 0 {
		return all, nil
	}
	cfg, err := own.config(*r.args)
	if err != nil {
		return nil, err
	}
	all = append([]hosting{{cfg, own.hides(), len(all) == 0 && cfg.Name == "", own.folder()}}, all...)
	return all, different(all)
}

func (r *onionRole) check() error {
	all, err := r.hostings()
	if err != nil {
		return err
	}
	c, err := r.config(nil)
	if err != nil {
		return err
	}
	if err := checkPQ(&c, all); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := checkFolders(&c, all); err != nil {
		return err
	}
	if _, err := r.controls(); err != nil {
		return err
	}
	return canStart(c.DataDir, "ClientTransportPlugins", c.ClientTransportPlugins)
}

// config returns the configuration of the client.
func (r *onionRole) config(log *slog.Logger) (chive.Config, error) {
	p := proxyRole{Common: r.Common, Config: r.Config}
	return p.config(log)
}

func (r *onionRole) open(w io.Writer, log *slog.Logger) (node, error) {
	cfg, err := r.config(log)
	if err != nil {
		return nil, err
	}
	all, err := r.hostings()
	if err != nil {
		return nil, err
	}
	c, err := startClient(cfg)
	if err != nil {
		return nil, err
	}
	n := &onionNode{cfg: cfg, list: r.list(), client: c, ports: newLocalPorts(log), onions: newOnions(c, log), log: log}
	if err := n.onions.start(all); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	n.ports.openInner(c, cfg.DataDir, &n.counts)
	return n, nil
}

func (r *onionRole) confinement(dataDir string) confinement {
	c := confinementOf(dataDir, r.Config.ClientTransportPlugins).client(&r.Config)
	all, _ := r.hostings() // check has seen the error
	return c.hosting(all)
}

// hosting adds the directories of keys, and folders of files.
func (c confinement) hosting(all []hosting) confinement {
	for _, h := range all {
		c.write = append(c.write, h.KeyDir)
		if h.folder != nil {
			c.read = append(c.read, h.folder.dir)
		}
	}
	return c
}

// onionNode is onion services on their client.
type onionNode struct {
	cfg    chive.Config // as it was at the start
	list   *networkList
	client Client
	ports  *localPorts // for other processes of the same user
	counts metrics.Registry
	onions *onions
	log    *slog.Logger
}

func (n *onionNode) dataDir() string         { return n.cfg.DataDir }
func (n *onionNode) lines() []string         { return n.onions.lines() }
func (n *onionNode) newIdentity()            { n.client.NewIdentity() }
func (n *onionNode) network() *chive.Network { return n.cfg.Network }
func (n *onionNode) status() any {
	return proxyReport{isA("onion", n.list), n.client.Status(), n.onions.status()}
}

func (n *onionNode) metrics() http.Handler {
	return proxyMetrics(n.client, &n.counts, n.onions)
}

// watch waits until clients can find the services.
func (n *onionNode) watch(ctx context.Context, say, ready func(...string)) error {
	published := n.onions.watch(ctx, say)
	for {
		select {
		case <-published:
			if published = nil; ctx.Err() == nil {
				ready()
			}
		case <-n.client.Done():
			return n.client.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *onionNode) reload(to role) error {
	r := to.(*onionRole)
	cfg, err := r.config(n.log)
	if err != nil {
		return err
	}
	all, err := r.hostings()
	if err != nil {
		return err
	}
	life.KeepFixed(&n.cfg, &cfg)
	return n.onions.reload(all, func() error { return n.client.Reload(cfg) })
}

// shutdown does not wait for connections, as C tor does not: clients connect again when the
// service is back. A host of a fleet sends new ones to the others, and lets its own finish.
func (n *onionNode) shutdown(ctx context.Context) error {
	n.onions.leaveAll(ctx)
	return nil
}

func (n *onionNode) close() error {
	n.ports.close()
	return errors.Join(n.onions.close(), n.client.Close())
}
