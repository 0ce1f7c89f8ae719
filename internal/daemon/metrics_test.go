package daemon

import (
	"log/slog"
	"net"
	"testing"

	"github.com/chivenet/chive/internal/localhttp/guardtest"
	"github.com/chivenet/chive/internal/metrics"
)

// TestMetricsGuard: the metrics port answers programs, and no web page. Every process opens
// it by ServeMetrics: proxies, onion services, relays, authorities, and chive fte.
func TestMetricsGuard(t *testing.T) {
	reg := new(metrics.Registry)
	reg.Counter("chive_test_total", "Counts nothing.")
	for _, line := range []string{"GET /metrics HTTP/1.1", "GET /metrics.json HTTP/1.1"} {
		guardtest.Walk(t, guardtest.Port{
			Line: line, OK: "HTTP/1.1 200 ", Names: []string{"relay.example"},
			Serve: func(l net.Listener) func() {
				return serveMetrics(l, []string{"relay.example"}, RegistryHandler(reg), slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
			},
		})
	}
}
