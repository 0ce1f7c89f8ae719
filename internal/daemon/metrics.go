package daemon

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/metrics"
)

// metricsServer serves the client's metrics and the doors' over HTTP.
func metricsServer(c Client, doors *metrics.Registry) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		if c.WriteMetrics(w) == nil { // an error is the reader's, who has gone
			doors.WritePrometheus(w)
		}
	})
	mux.HandleFunc("GET /metrics.json", func(w http.ResponseWriter, _ *http.Request) {
		var front metrics.Snapshot
		doors.Snapshot(&front)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"client": c.MetricsSnapshot(), "doors": &front})
	})
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
}
