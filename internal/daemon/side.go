package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/socks"
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
	stop = func() {
		if st != nil {
			st.close()
		}
	}
	if d.metrics == "" {
		return nil, stop, nil
	}
	l, err := socks.Listen(d.metrics)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("metrics: %w", err)
	}
	if socks.Exposed(l.Addr()) {
		log.Warn("the metrics port is open to other machines")
	}
	srv := metricsServer(d.handler, log)
	// Not among the doors: it goes on while they drain.
	var serving sync.WaitGroup
	serving.Go(func() {
		defer panics.Recover(log, d.fail)
		if err := srv.Serve(listen.Patient(l, log, "metrics")); !errors.Is(err, http.ErrServerClosed) {
			d.fail(err)
		}
	})
	closeStatus := stop
	return []string{"metrics " + l.Addr().String()}, func() { srv.Close(); serving.Wait(); closeStatus() }, nil
}
