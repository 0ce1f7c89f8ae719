package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/role"
)

// Proxy is a client with its front doors, run as a process.
type Proxy struct {
	Settings *Settings
	// Reload returns the settings as they would be read now.
	Reload func() (*Settings, error)
	// Open starts a client. It must not wait for the client to be ready.
	Open func(context.Context, chive.Config) (Client, error)

	// Out hears where each door is and, alone on a line, "ready" when traffic
	// can flow; Err gets the log, and the progress bar where it is a terminal.
	Out, Err io.Writer

	// Hangup asks to reload, Stop to drain and end; a second Stop ends at
	// once. SIGHUP and SIGTERM usually stand behind them.
	Hangup, Stop <-chan os.Signal

	drainFor time.Duration // as the settings have it now
	config   chive.Config  // as it was at the start
}

// ErrKilled is what Run returns when it was told twice to stop: connections
// were cut.
var ErrKilled = errors.New("stopped without draining")

// NewLogger returns a log of a format, and its level, which may change.
func NewLogger(from slog.Level, format string, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(from)
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), level
	}
	return slog.New(slog.NewTextHandler(w, o)), level
}

// Run runs the proxy until it is told to stop, ctx ends, or a door or the
// client fails for good.
func (p *Proxy) Run(ctx context.Context) (err error) {
	s := p.Settings
	if err := s.Check(); err != nil {
		return err
	}
	p.drainFor = s.Drain
	log, level := NewLogger(s.LogLevel, s.LogFormat, p.Err)
	cfg, err := s.ClientConfig(log)
	if err != nil {
		return err
	}
	if len(given(s.SOCKS))+len(given(s.HTTP))+len(given(s.DNS)) == 0 {
		return fault.New(fault.Config, "no door is open: give --socks, --http or --dns an address")
	}
	p.config = cfg
	client, err := p.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	var reg metrics.Registry
	ds, err := openDoors(s, proxydial.Dialer{Client: client}, &reg, log)
	if err != nil {
		return err
	}
	defer ds.close()
	side := sideDoors{
		dataDir: cfg.DataDir, status: func() any { return proxyReport{rolePrefix{"proxy"}, client.Status()} },
		metrics: s.Metrics, handler: proxyMetrics(client, &reg), fail: ds.fail,
	}
	lines, stop, err := side.open(log)
	if err != nil {
		return err
	}
	defer stop()
	ds.lines = append(ds.lines, lines...)
	c := confinementOf(cfg.DataDir, []string{s.file, s.NetworkFile}, cfg.ClientTransportPlugins)
	for _, d := range s.doors() {
		for _, a := range d.addrs {
			if path, ok := strings.CutPrefix(a, "unix:"); ok { // which is removed at the end
				c.write = append(c.write, filepath.Dir(path))
			}
		}
	}
	if err := c.confine(s.Sandbox, log); err != nil {
		ds.close()
		return err
	}
	ds.announce(p.Out)
	return p.serve(ctx, client, ds, log, level)
}

// serve follows the bootstrap and the signals.
func (p *Proxy) serve(ctx context.Context, client Client, ds *doors, log *slog.Logger, level *slog.LevelVar) error {
	events, unsubscribe := client.Events()
	defer unsubscribe()
	bar := newProgress(p.Err, log)
	defer bar.end()
	ready := false
	follow := func(b chive.BootstrapStatus) {
		bar.show(b)
		if b.Ready && !ready {
			bar.end()
			fmt.Fprintln(p.Out, "ready")
			notify(log, daemon.SdNotifyReady)
		}
		ready = ready || b.Ready
	}
	follow(client.Status().Bootstrap) // what happened before the subscription
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return fault.New(fault.Closed, "the client has closed")
			}
			if b, ok := e.(*chive.BootstrapEvent); ok {
				follow(b.BootstrapStatus)
			}
		case <-p.Hangup:
			p.reload(client, log, level)
		case <-p.Stop:
			bar.end()
			return p.drain(ctx, ds, log)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-client.Done():
			return client.Err()
		case err := <-ds.failed:
			return err
		}
	}
}

// drain lets open connections finish.
func (p *Proxy) drain(ctx context.Context, ds *doors, log *slog.Logger) error {
	notify(log, daemon.SdNotifyStopping)
	log.Info("stopping: no new connections; open ones may finish", "within", p.drainFor)
	ctx, cancel := context.WithTimeout(ctx, p.drainFor)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer panics.Recover(log, func(err error) { done <- err })
		done <- ds.shutdown(ctx)
	}()
	select {
	case err := <-done:
		if err != nil {
			log.Warn("some connections did not finish in time", "err", err)
		}
		return nil
	case <-p.Stop:
		cancel()
		<-done
		return ErrKilled
	}
}

// proxyLive are the options that a running proxy takes over when it is told to
// reload; the others wait for its next start.
var proxyLive = map[string]bool{
	"entry-nodes": true, "middle-nodes": true, "exit-nodes": true, "exclude-nodes": true, "exclude-exit-nodes": true, "strict-nodes": true,
	"isolate-dest-addr": true, "isolate-dest-port": true, "max-circuit-dirtiness": true, "stream-timeout": true, "drain": true, "log-level": true,
}

// reload reads the settings again. What a running proxy can take over takes
// effect at once; what else has changed is named, and waits for the next start.
func (p *Proxy) reload(client Client, log *slog.Logger, level *slog.LevelVar) {
	next, err := p.Reload()
	if err == nil {
		err = next.Check()
	}
	var cfg chive.Config
	if err == nil {
		cfg, err = next.ClientConfig(log)
	}
	if err == nil {
		role.KeepFixed(&p.config, &cfg)
		err = client.Reload(cfg)
	}
	if err != nil {
		log.Error("reload: the settings in use stay", "err", err)
		return
	}
	level.Set(next.LogLevel)
	p.drainFor = next.Drain
	logChanges(log, changed(&p.Settings.optionSet, &next.optionSet), proxyLive)
}

// logChanges tells which settings differ from those at the start: what is in
// effect, and what waits.
func logChanges(log *slog.Logger, names []string, live map[string]bool) {
	var now, waiting []string
	for _, name := range names {
		if live[name] {
			now = append(now, name)
		} else {
			waiting = append(waiting, name)
		}
	}
	if len(waiting) > 0 {
		log.Warn("reloaded; these changes take effect at the next start", "options", waiting)
	}
	log.Info("reloaded", "changed", now)
}

// notify tells systemd, when it started this process.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", "state", state, "err", err)
	}
}
