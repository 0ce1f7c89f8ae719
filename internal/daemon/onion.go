package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/options"
	life "github.com/chivenet/chive/internal/role"
)

// Onion is what an onion service is told besides its client's Config.
type Onion struct {
	KeyDir             string
	Ports              []string // "PORT=TARGET"
	IntroductionPoints int
	MaxStreams         int
	CloseCircuit       bool
}

// onionTable is the options of an onion service.
var onionTable = options.Table{{Title: "Onion service", Options: []options.Option{
	{Key: "key-dir", Field: "KeyDir", Zero: "", Help: "`DIR` of the service's key, as C tor's HiddenServiceDir; it is made, with a new key, if it is missing"},
	{Key: "port", Field: "Ports", Each: onionPort, Help: "`PORT=TARGET`: where connections to a virtual port go: IP:PORT or unix:PATH; arguments of the command are more of them"},
	{Key: "introduction-points", Field: "IntroductionPoints", Default: "3", Bounds: options.Bounds{Lo: 1, Hi: hsservice.MaxPoints}, Help: "`NUMBER` of relays at which clients ask for the service"},
	{Key: "max-streams", Field: "MaxStreams", Bounds: options.Bounds{Lo: 0, Hi: 65535}, Zero: "no bound", Help: "`NUMBER` of open connections that one client's circuit may have"},
	{Key: "max-streams-close-circuit", Field: "CloseCircuit", Help: "end the circuit of a client that opens more; without it, connections are refused"},
}}}

func onionPort(s string) error {
	_, _, err := hsservice.ParsePort(s)
	return err
}

// NewOnionSettings returns the default settings of an onion service. ports are the
// command's arguments, which are known once the command line has been parsed.
func NewOnionSettings(ports *[]string) *Settings {
	return newSettings(func() role { return &onionRole{args: ports} })
}

// onionRole is a client that hosts an onion service.
type onionRole struct {
	Common
	Onion
	Config chive.Config // Network and Logger are set later

	args *[]string
}

func (r *onionRole) parts() []options.Part {
	return []options.Part{
		{Table: onionTable, Of: &r.Onion}, {Table: anyNetwork, Of: &r.Common}, {Table: options.Client, Of: &r.Config},
		{Table: processTable, Of: &r.Common}, {Table: logTable, Of: &r.Common},
	}
}

func (r *onionRole) maxMemory() uint64 { return r.Config.MaxMemory }

// service returns the configuration of the service.
func (r *onionRole) service() (chive.OnionConfig, error) {
	c := chive.OnionConfig{
		KeyDir: r.KeyDir, Ports: []int{}, Targets: map[int]string{},
		IntroductionPoints: r.IntroductionPoints, MaxStreams: r.MaxStreams, CloseCircuit: r.CloseCircuit,
	}
	if c.KeyDir == "" {
		return c, options.Wrong("KeyDir", "a directory for the service's key is needed")
	}
	for _, text := range append(append([]string(nil), r.Ports...), *r.args...) {
		port, t, err := hsservice.ParsePort(text)
		if err != nil {
			return c, err
		}
		if c.Targets[int(port)] != "" {
			return c, fault.New(fault.Config, "onion service: port %d is given twice", port)
		}
		c.Targets[int(port)] = t.String()
	}
	if len(c.Targets) == 0 {
		return c, fault.New(fault.Config, "onion service: no port is given: say where connections go, such as 80=127.0.0.1:8080")
	}
	return c, nil
}

func (r *onionRole) check() error {
	if _, err := r.service(); err != nil {
		return err
	}
	c := r.Config
	if c.PQ == chive.PQRequireAll {
		return options.Wrong("PQ", "onion services have no post-quantum handshake with their clients, so not every hop can have one")
	}
	var err error
	if c.Network, err = r.network(); err != nil {
		return err
	}
	return c.Check()
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
	service, err := r.service()
	if err != nil {
		return nil, err
	}
	c, err := chive.New(cfg)
	if err != nil {
		return nil, err
	}
	l, err := c.Listen(context.Background(), service)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &onionNode{cfg: cfg, client: c, listener: l, log: log}, nil
}

func (r *onionRole) confinement(dataDir string) confinement {
	c := confinementOf(dataDir, r.Config.ClientTransportPlugins)
	c.write = append(c.write, r.KeyDir)
	return c
}

// onionNode is an onion service on its client.
type onionNode struct {
	cfg      chive.Config // as it was at the start
	client   *chive.Client
	listener *chive.OnionListener
	log      *slog.Logger
}

func (n *onionNode) dataDir() string { return n.cfg.DataDir }
func (n *onionNode) lines() []string { return []string{"onion " + n.listener.Address()} }
func (n *onionNode) status() any     { return proxyReport{rolePrefix{"onion"}, n.client.Status()} }

func (n *onionNode) metrics() http.Handler { return proxyMetrics(n.client, new(metrics.Registry)) }

// watch waits until clients can find the service.
func (n *onionNode) watch(ctx context.Context, ready func(...string)) error {
	if err := n.listener.Published(ctx); err == nil {
		ready("published")
	}
	select {
	case <-n.client.Done():
		return n.client.Err()
	case <-ctx.Done():
		return nil
	}
}

func (n *onionNode) reload(to role) error {
	cfg, err := to.(*onionRole).config(n.log)
	if err != nil {
		return err
	}
	life.KeepFixed(&n.cfg, &cfg)
	return n.client.Reload(cfg)
}

// shutdown does not wait: clients connect again, to where the service is then.
func (n *onionNode) shutdown(context.Context) error { return nil }

func (n *onionNode) close() error { return errors.Join(n.listener.Close(), n.client.Close()) }
