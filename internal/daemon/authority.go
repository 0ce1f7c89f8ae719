package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/options"
	life "github.com/chivenet/chive/internal/role"
)

// authorityRole is a directory authority.
type authorityRole struct {
	Common
	Config authority.Config // Network and Logger are set later
}

func (r *authorityRole) parts() []options.Part {
	return []options.Part{
		{Table: namedNetwork, Of: &r.Common}, {Table: options.Authority, Of: &r.Config}, {Table: processTable, Of: &r.Common}, {Table: logTable, Of: &r.Common},
	}
}

func (r *authorityRole) maxMemory() uint64 { return r.Config.MaxMemory }

func (r *authorityRole) check() error {
	cfg, err := r.config(nil)
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	return canStart(cfg.DataDir, "", nil)
}

// config returns the configuration of the authority, with its network.
func (r *authorityRole) config(log *slog.Logger) (authority.Config, error) {
	cfg := r.Config
	cfg.Logger = log
	if r.NetworkFile == "" {
		return cfg, options.Wrong("NetworkFile", "an authority must know the others: give it a network file")
	}
	var err error
	cfg.Network, err = r.network()
	return cfg, err
}

func (r *authorityRole) open(_ io.Writer, log *slog.Logger) (node, error) {
	cfg, err := r.config(log)
	if err != nil {
		return nil, err
	}
	n := &authorityNode{cfg: cfg, log: log}
	if n.Authority, err = authority.New(cfg); err != nil {
		return nil, err
	}
	return n, nil
}

func (r *authorityRole) confinement(dataDir string) confinement {
	return confinementOf(dataDir, nil).reading(r.Config.RelayList, r.Config.BandwidthFile)
}

// authorityNode is a running authority.
type authorityNode struct {
	*authority.Authority
	cfg authority.Config // as it was at the start
	log *slog.Logger
}

func (n *authorityNode) dataDir() string { return n.cfg.DataDir }
func (n *authorityNode) lines() []string { return nil }
func (n *authorityNode) status() any     { return authorityReport{isA("authority", nil), n.Status()} }

func (n *authorityNode) metrics() http.Handler {
	return metricsHandler(n.WriteMetrics, n.WriteMetricsJSON)
}

func (n *authorityNode) watch(ctx context.Context, _, ready func(...string)) error {
	ready()
	select {
	case <-n.Done():
		return n.Err()
	case <-ctx.Done():
		return nil
	}
}

// reload also reads the list of relays again.
func (n *authorityNode) reload(to role) error {
	cfg, err := to.(*authorityRole).config(n.log)
	if err != nil {
		return err
	}
	life.KeepFixed(&n.cfg, &cfg)
	return n.Reload(cfg)
}

func (n *authorityNode) shutdown(context.Context) error { return n.Close() }
func (n *authorityNode) close() error                   { return n.Close() }
