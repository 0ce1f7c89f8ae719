package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/relay"
	"github.com/coreos/go-systemd/v22/daemon"
)

// RelayProcess is a relay, run as a process.
type RelayProcess struct {
	Settings *RelaySettings
	// Reload returns the settings as they would be read now.
	Reload func() (*RelaySettings, error)

	// Out hears the relay's ports, its fingerprints, a bridge's lines and, alone
	// on a line, "ready"; Err gets the log.
	Out, Err io.Writer

	// Hangup asks to reload, Stop to drain and end; a second Stop ends at
	// once. SIGHUP and SIGTERM usually stand behind them.
	Hangup, Stop <-chan os.Signal
}

// Run runs the relay until it is told to stop, or fails for good.
func (p *RelayProcess) Run(ctx context.Context) (err error) {
	s := p.Settings
	if err := s.Check(); err != nil {
		return err
	}
	log, level := NewLogger(s.LogLevel, s.LogFormat, p.Err)
	cfg, err := s.Config(log)
	if err != nil {
		return err
	}
	greet(p.Err, s, &cfg, log)
	r, err := relay.New(cfg)
	if err != nil {
		return err
	}
	limitHeap(cfg.MaxMemory)
	defer func() {
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	side := sideDoors{
		dataDir: cfg.DataDir, status: func() any { return relayReport{rolePrefix{"relay"}, r.Status()} },
		metrics: s.Metrics, handler: metricsHandler(r.WriteMetrics, r.WriteMetricsJSON), fail: func(err error) { failed <- err },
	}
	lines, closeSide, err := side.open(log)
	if err == nil {
		defer closeSide()
		// Everything is open; what comes is not to be trusted with more.
		err = confinementOf(cfg.DataDir, []string{s.file, s.NetworkFile, cfg.FamilyFile}, cfg.ServerTransportPlugins).confine(s.Sandbox, log)
	}
	if err != nil {
		return err
	}
	for _, a := range r.Addrs() {
		lines = append(lines, fmt.Sprint("orport ", a))
	}
	if a := r.DirPort(); a != nil {
		lines = append(lines, fmt.Sprint("dirport ", a))
	}
	rsa, ed := r.Fingerprint()
	for _, l := range append(lines, "fingerprint "+rsa+" "+ed) {
		fmt.Fprintln(p.Out, l)
	}
	if cfg.Bridge {
		go panics.Contain(log, func(err error) { failed <- err }, func() { p.bridgeLines(ctx, r, log) })()
	} else {
		fmt.Fprintln(p.Out, "ready")
	}
	return p.serve(ctx, r, log, level, failed)
}

// bridgeLines says by which lines clients reach the bridge, and "ready": its
// transports run when it does.
func (p *RelayProcess) bridgeLines(ctx context.Context, r *relay.Relay, log *slog.Logger) {
	lines, err := r.BridgeLines(ctx)
	if err != nil && ctx.Err() == nil {
		log.Error("a transport of this bridge cannot be used", "err", err)
	}
	for _, l := range lines {
		fmt.Fprintln(p.Out, "bridge", l)
	}
	fmt.Fprintln(p.Out, "ready")
}

// serve runs until a signal, drains, and ends at once at a second signal.
func (p *RelayProcess) serve(ctx context.Context, r *relay.Relay, log *slog.Logger, level *slog.LevelVar, failed <-chan error) error {
	// Run hears from Close how it went.
	drain := func() { go panics.Contain(log, nil, func() { _ = r.Shutdown(context.Background()) })() }
	stopping := ctx.Done()
	notify(log, daemon.SdNotifyReady)
	for told := false; ; {
		select {
		case <-r.Done():
			return r.Err()
		case err := <-failed:
			return errors.Join(err, r.Shutdown(context.Background()))
		case <-stopping:
			stopping = nil
			drain()
		case <-p.Hangup:
			p.reload(r, log, level)
		case <-p.Stop:
			if told {
				log.Warn("told twice to stop: open circuits are cut")
				return ErrKilled
			}
			told = true
			notify(log, daemon.SdNotifyStopping)
			drain()
		}
	}
}

// reload reads the settings again. What a running relay can take over takes
// effect at once; what else has changed is named, and waits for the next start.
func (p *RelayProcess) reload(r *relay.Relay, log *slog.Logger, level *slog.LevelVar) {
	next, err := p.Reload()
	if err == nil {
		err = next.Check()
	}
	var cfg relay.Config
	if err == nil {
		cfg, err = next.Config(log)
	}
	if err == nil {
		running := r.Config()
		role.KeepFixed(&running, &cfg)
		err = r.Reload(cfg)
	}
	if err != nil {
		log.Error("reload: the settings in use stay", "err", err)
		return
	}
	limitHeap(cfg.MaxMemory)
	level.Set(next.LogLevel)
	logChanges(log, changed(&p.Settings.optionSet, &next.optionSet), relayLive)
}
