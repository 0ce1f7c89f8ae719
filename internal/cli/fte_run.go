package cli

import (
	"context"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
)

// run is chive fte itself.
func (f *fteFlags) run(ctx context.Context, stderr io.Writer) error {
	outliveReaders()
	server := f.mode == "server"
	var t fte.Transport
	if err := interruptible(ctx, func() (err error) {
		t, err = f.transport(server)
		return err
	}); ctx.Err() != nil {
		return nil // told to stop, as it may be at any later time
	} else if err != nil {
		return err
	}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup; a closed terminal may send several, which cut nothing
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	log := logline.New(slog.LevelInfo, logline.Auto, stderr)
	if f.quiet {
		log = slog.New(slog.DiscardHandler)
	}
	if f.publicKey {
		log.Warn("the key is fteproxy's built-in one, which is public: everybody can read these connections and use the server. Give both sides --key-file, or --protocol chive")
	}
	stats := new(fte.Stats)
	p := &fte.Proxy{MaxConns: f.maxConns, Log: log, Stats: stats}
	var at string
	if server {
		at, p.Dial = hostPort(f.serverIP, f.serverPort), dialTo(hostPort(f.proxyIP, f.proxyPort))
	} else {
		at, p.Dial, p.Dialed = hostPort(f.clientIP, f.clientPort), dialTo(hostPort(f.serverIP, f.serverPort)), t
	}
	if f.http && !server {
		if f.httpURL == "" {
			f.httpURL = "http://" + hostPort(f.serverIP, f.serverPort) + "/"
		}
		p.Dial = fte.HTTPDialer{URL: f.httpURL, Host: f.httpHost, Proxy: f.httpProxy}.Dial
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return listen.Failed(at, err)
	}
	shutdown := func(context.Context) error { return nil } // of what Drain does not know
	if server && f.http {
		hs, web := f.serveHTTP(l, t, stats, log)
		defer web.Close()
		l, shutdown = hs, hs.Shutdown
	} else if server {
		cfg := fte.ListenConfig{Transport: t, MaxPending: f.maxPending, MaxConns: f.maxConns, MaxMemory: f.maxMemory, HandshakeTimeout: f.handshake, Stats: stats}
		if f.decoy != "" {
			cfg.Decoy = dialTo(f.decoy)
		}
		l = fte.NewListener(l, cfg)
	}
	if f.metrics != "" {
		_, stop, err := daemon.ServeMetrics(f.metrics, f.metricsHosts, daemon.RegistryHandler(metricsOf(stats, f.publicKey)), log, func(err error) { log.Error("the metrics port is closed", "err", err) })
		if err != nil {
			l.Close()
			return fault.New(fault.KindOf(err), "--metrics: %w", err)
		}
		defer stop()
	}
	log.Info("ready", "listening", l.Addr().String(), "mode", f.mode, "protocol", f.protocol)
	if err := p.Serve(ctx, l); err != nil {
		return err
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends it at once
	drain, cancel := context.WithTimeout(context.Background(), f.drain)
	defer cancel()
	err = p.Drain(drain)
	if late := shutdown(drain); err == nil {
		err = late
	}
	if err != nil {
		log.Warn("stopped", "err", fte.HideAddr(err))
	}
	return nil
}

// serveHTTP accepts connections that arrive as HTTP messages on l. To close web closes l.
func (f *fteFlags) serveHTTP(l net.Listener, t fte.Transport, stats *fte.Stats, log *slog.Logger) (hs *fte.HTTPServer, web *http.Server) {
	hs = &fte.HTTPServer{Transport: t, Address: l.Addr(), MaxSessions: f.maxConns, MaxPending: f.maxPending, MaxMemory: f.maxMemory, Stats: stats}
	silent := stdlog.New(io.Discard, "", 0) // they would tell addresses
	if f.decoy != "" {
		decoy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: f.decoy})
		decoy.ErrorLog = silent
		hs.Decoy = decoy
	}
	web = &http.Server{
		Handler: hs, ReadHeaderTimeout: f.handshake, IdleTimeout: fte.HTTPIdle, MaxHeaderBytes: fte.HTTPHeader,
		ConnState: hs.ConnState, ErrorLog: silent,
	}
	go panics.Contain(nil, func(error) { hs.Close() }, func() {
		web.Serve(listen.Patient(l, log, "HTTP")) // ends with Close, or when l fails: then Accept does too
		hs.Close()
	})()
	return hs, web
}

// metricsOf returns what stats counts.
func metricsOf(s *fte.Stats, publicKey bool) *metrics.Registry {
	r := new(metrics.Registry)
	register(r, s, publicKey)
	return r
}

// register names what s counts in r.
func register(r *metrics.Registry, s *fte.Stats, publicKey bool) {
	known := r.Gauge("chive_fte_public_key", "1 if the key is fteproxy's built-in one, which is public and hides nothing; else 0.")
	if publicKey {
		known.Inc()
	}
	for _, m := range []struct {
		name, help string
		f          func() uint64
	}{
		{"chive_fte_accepted_total", "Connections that came in.", s.Accepted.Load},
		{"chive_fte_opened_total", "Handshakes that succeeded.", s.Opened.Load},
		{"chive_fte_failed_total", "Handshakes that failed.", s.Failed.Load},
		{"chive_fte_evicted_total", "Handshakes, connections and requests closed to make room.", s.Evicted.Load},
		{"chive_fte_decoyed_total", "Failed handshakes handed to the decoy.", s.Decoyed.Load},
		{"chive_fte_dial_failed_total", "Connections whose other side couldn't be reached.", s.DialFailed.Load},
		{"chive_fte_broken_total", "Connections that ended with an error.", s.Broken.Load},
		{"chive_fte_sent_bytes_total", "Payload sent in the format, of ended connections.", s.SentBytes.Load},
		{"chive_fte_received_bytes_total", "Payload received in the format, of ended connections.", s.RecvBytes.Load},
	} {
		r.CounterFunc(m.name, m.help, m.f)
	}
	r.GaugeFunc("chive_fte_pending", "Unauthenticated connections.", s.Pending.Load)
	r.GaugeFunc("chive_fte_active", "Open connections.", s.Active.Load)
	r.CounterFunc(panics.Metric, panics.Help, panics.Total)
}

func hostPort(ip string, port uint16) string { return net.JoinHostPort(ip, strconv.Itoa(int(port))) }

func dialTo(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}
