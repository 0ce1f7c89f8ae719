package daemon

import (
	"log/slog"
	"net/http"

	"github.com/chivenet/chive/internal/options"
)

// sidePorts are the status socket in the data directory and the metrics port.
type sidePorts struct {
	dataDir string
	answers answers  // on the status socket
	metrics string   // empty: none
	names   []string // by which it may be asked
	handler http.Handler
	fail    func(error) // receives the error if the metrics port ends by itself
}

// open opens both, and returns lines with their addresses.
func (d *sidePorts) open(log *slog.Logger) (lines []string, stop func(), err error) {
	// Only the status command needs the socket, so the process runs even if it
	// cannot be opened.
	st, err := serveStatus(d.dataDir, d.answers, log)
	if err != nil {
		log.Warn("chive status will not find this process", "err", err)
	}
	closeStatus := func() {
		if st != nil {
			st.close()
		}
	}
	if d.metrics == "" {
		return nil, closeStatus, nil
	}
	// Not one of the doors: it continues while they drain.
	at, stopMetrics, err := ServeMetrics(d.metrics, d.names, d.handler, log, d.fail)
	if err != nil {
		closeStatus()
		return nil, nil, options.In("Metrics", err)
	}
	return []string{"metrics " + at.String()}, func() { stopMetrics(); closeStatus() }, nil
}
