package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/ram"
	irelay "github.com/chivenet/chive/internal/relay"
	life "github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/relay"
)

// relayRole is a relay, an exit or a bridge.
type relayRole struct {
	Common
	Controlling
	Config relay.Config // Network and Logger are set later

	over irelay.Over // for a relay inside another program
}

func (r *relayRole) parts() []options.Part {
	return []options.Part{
		{Table: anyNetwork, Of: &r.Common}, {Table: options.Relay, Of: &r.Config}, {Table: controlTable, Of: &r.Controlling}, {Table: processTable, Of: &r.Common}, {Table: logTable, Of: &r.Common},
	}
}

func (r *relayRole) maxMemory() uint64 {
	bytes, _ := ram.MaxMemory(r.Config.MaxMemory)
	return bytes
}

func (r *relayRole) check() error {
	cfg, err := r.config(nil)
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	if cfg.KeyDir != "" {
		if err := life.CheckDir(cfg.KeyDir); err != nil {
			return options.Wrong("KeyDir", "%w", err)
		}
	}
	if _, err := r.controls(); err != nil {
		return err
	}
	return canStart(cfg.DataDir, "ServerTransportPlugins", cfg.ServerTransportPlugins)
}

// config returns the configuration of the relay, with its network and data
// directory filled in.
func (r *relayRole) config(log *slog.Logger) (relay.Config, error) {
	cfg := r.Config
	cfg.Logger = log
	var err error
	if cfg.Network, err = r.network(); err != nil {
		return cfg, err
	}
	if cfg.DataDir == "" {
		dir, err := chive.DefaultDataDir()
		if err != nil {
			return cfg, err
		}
		cfg.DataDir = filepath.Join(dir, "relay")
	}
	return cfg, nil
}

func (r *relayRole) open(w io.Writer, log *slog.Logger) (node, error) {
	cfg, err := r.config(log)
	if err != nil {
		return nil, err
	}
	greet(w, r.NetworkFile, &cfg, log)
	n := &relayNode{cfg: cfg, list: r.list(), log: log}
	opened, err := irelay.NewOver(cfg, r.over)
	if err != nil {
		return nil, err
	}
	n.Relay = opened.(*relay.Relay)
	return n, nil
}

func (r *relayRole) confinement(dataDir string) confinement {
	c := confinementOf(dataDir, r.Config.ServerTransportPlugins).reading(r.Config.FamilyFile)
	if r.Config.KeyDir != "" {
		c.write = append(c.write, r.Config.KeyDir)
	}
	return c
}

// relayNode is a running relay.
type relayNode struct {
	*relay.Relay
	cfg  relay.Config // as it was at the start
	list *networkList
	log  *slog.Logger
}

func (n *relayNode) lines() (lines []string) {
	for _, a := range n.Addrs() {
		lines = append(lines, fmt.Sprint("orport ", a))
	}
	if a := n.DirPort(); a != nil {
		lines = append(lines, fmt.Sprint("dirport ", a))
	}
	rsa, ed := n.Fingerprint()
	return append(lines, "fingerprint "+rsa+" "+ed)
}

func (n *relayNode) dataDir() string { return n.cfg.DataDir }
func (n *relayNode) status() any     { return relayReport{isA("relay", n.list), n.Status()} }

func (n *relayNode) metrics() http.Handler { return metricsHandler(n.WriteMetrics, n.WriteMetricsJSON) }

// watch calls ready with a bridge's lines for clients, once its transports run.
func (n *relayNode) watch(ctx context.Context, _, ready func(...string)) error {
	var lines []string
	if n.cfg.Bridge {
		bridge, err := n.BridgeLines(ctx)
		if err != nil && ctx.Err() == nil {
			n.log.Error("a transport of this bridge cannot be used", "err", err)
		}
		for _, l := range bridge {
			lines = append(lines, "bridge "+l)
		}
	}
	if ctx.Err() == nil {
		ready(lines...)
	}
	select {
	case <-n.Done():
		return n.Err()
	case <-ctx.Done():
		return nil
	}
}

func (n *relayNode) reload(to role) error {
	cfg, err := to.(*relayRole).config(n.log)
	if err != nil {
		return err
	}
	life.KeepFixed(&n.cfg, &cfg)
	return n.Reload(cfg)
}

func (n *relayNode) shutdown(ctx context.Context) error { return n.Shutdown(ctx) }
func (n *relayNode) close() error                       { return n.Close() }
