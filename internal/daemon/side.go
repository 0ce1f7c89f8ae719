package daemon

import (
	"log/slog"
	"net/http"
)

// sidePorts are by what a running program is watched: the status socket in its
// data directory, and the metrics port.
type sidePorts struct {
	dataDir string
	status  func() any
	metrics string // empty: none
	handler http.Handler
	fail    func(error) // hears why the metrics port ended by itself
}

// open opens both, and returns the lines that say where.
func (d *sidePorts) open(log *slog.Logger) (lines []string, stop func(), err error) {
	// Only status needs the socket, so a path that cannot have one does not
	// keep traffic from flowing.
	st, err := serveStatus(d.dataDir, d.status, log)
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
	// Not among the doors: it goes on while they drain.
	at, stopMetrics, err := ServeMetrics(d.metrics, d.handler, log, d.fail)
	if err != nil {
		closeStatus()
		return nil, nil, err
	}
	return []string{"metrics " + at.String()}, func() { stopMetrics(); closeStatus() }, nil
}
