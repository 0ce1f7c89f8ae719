package daemon

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/socks"
)

// proxyMetrics serves the metrics of the client, of its listeners and of its onion services.
func proxyMetrics(c Client, ports *metrics.Registry, onions *onions) http.Handler {
	return metricsHandler(func(w io.Writer) error {
		if err := c.WriteMetrics(w); err != nil {
			return err
		}
		if err := ports.WritePrometheus(w); err != nil {
			return err
		}
		return onions.registry().WritePrometheus(w)
	}, func(w io.Writer) error {
		var front, services metrics.Snapshot
		ports.Snapshot(&front)
		onions.registry().Snapshot(&services)
		var client bytes.Buffer
		if err := c.WriteMetricsJSON(&client); err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(map[string]any{"client": json.RawMessage(client.Bytes()), "ports": &front, "onions": &services})
	})
}

// RegistryHandler serves a registry's metrics.
func RegistryHandler(r *metrics.Registry) http.Handler {
	return metricsHandler(r.WritePrometheus, r.WriteJSON)
}

// metricsHandler serves metrics in both forms.
func metricsHandler(prometheus func(io.Writer) error, asJSON func(io.Writer) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = prometheus(w) // an error means that the reader has gone
	})
	mux.HandleFunc("GET /metrics.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = asJSON(w)
	})
	return mux
}

// ServeMetrics opens a port for metrics, which h serves, until stop. names are the host
// names by which it may be asked (localhttp.Guard). If it ends by itself, fail hears why.
func ServeMetrics(addr string, names []string, h http.Handler, log *slog.Logger, fail func(error)) (at net.Addr, stop func(), err error) {
	l, err := socks.Listen(addr)
	if err != nil {
		return nil, nil, err
	}
	if socks.Exposed(l.Addr()) {
		log.Warn("the metrics port is open to other machines")
	}
	return l.Addr(), serveMetrics(l, names, h, log, fail), nil
}

func serveMetrics(l net.Listener, names []string, h http.Handler, log *slog.Logger, fail func(error)) (stop func()) {
	srv := &localhttp.Server{Handler: h, Guard: localhttp.Guard{Names: names}, Log: log, Port: "metrics"}
	return serveLocal(srv.Serve, l, log, fail)
}
