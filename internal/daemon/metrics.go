package daemon

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
)

// proxyMetrics are the client's metrics and the doors'.
func proxyMetrics(c Client, doors *metrics.Registry) http.Handler {
	return metricsHandler(func(w io.Writer) error {
		if err := c.WriteMetrics(w); err != nil {
			return err
		}
		return doors.WritePrometheus(w)
	}, func(w io.Writer) error {
		var front metrics.Snapshot
		doors.Snapshot(&front)
		var client bytes.Buffer
		if err := c.WriteMetricsJSON(&client); err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(map[string]any{"client": json.RawMessage(client.Bytes()), "doors": &front})
	})
}

// metricsHandler serves metrics in both forms.
func metricsHandler(prometheus func(io.Writer) error, asJSON func(io.Writer) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = prometheus(w) // an error is the reader's, who has gone
	})
	mux.HandleFunc("GET /metrics.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = asJSON(w)
	})
	return mux
}

func metricsServer(h http.Handler, log *slog.Logger) *http.Server {
	contained := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer panics.Recover(log, func(error) { http.Error(w, "internal error", http.StatusInternalServerError) })
		h.ServeHTTP(w, r)
	})
	return &http.Server{
		Handler: contained, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
}
