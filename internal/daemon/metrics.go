package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/metrics"
)

// proxyMetrics are the client's metrics and the doors'.
func proxyMetrics(c Client, doors *metrics.Registry) http.Handler {
	return metricsHandler(func(w io.Writer) error {
		if err := c.WriteMetrics(w); err != nil {
			return err
		}
		return doors.WritePrometheus(w)
	}, func() any {
		var front metrics.Snapshot
		doors.Snapshot(&front)
		return map[string]any{"client": c.MetricsSnapshot(), "doors": &front}
	})
}

// metricsHandler serves metrics in both forms.
func metricsHandler(prometheus func(io.Writer) error, snapshot func() any) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = prometheus(w) // an error is the reader's, who has gone
	})
	mux.HandleFunc("GET /metrics.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(snapshot())
	})
	return mux
}

func metricsServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
}
