package daemon

import (
	"log/slog"
	"net/http"
	"slices"

	"github.com/chivenet/chive/internal/options"
)

// sidePorts are the status socket in the data directory, and the ports for metrics and profiles.
type sidePorts struct {
	dataDir  string
	answers  answers  // on the status socket
	metrics  string   // empty: none
	names    []string // by which it may be asked
	handler  http.Handler
	profiles string      // empty: none
	fail     func(error) // receives the error if one of the two ports ends by itself
}

// open opens them, and returns lines with their addresses.
func (d *sidePorts) open(log *slog.Logger) (lines []string, stop func(), err error) {
	// Only the status command needs the socket, so the process runs even if it
	// cannot be opened.
	st, err := serveStatus(d.dataDir, d.answers, log)
	if err != nil {
		log.Warn("chive status will not find this process", "err", err)
	}
	var open []func()
	stop = func() {
		for _, f := range slices.Backward(open) {
			f()
		}
	}
	if st != nil {
		open = append(open, st.close)
	}
	// Not among the local ports: these continue while those drain.
	if d.metrics != "" {
		at, end, err := ServeMetrics(d.metrics, d.names, d.handler, log, d.fail)
		if err != nil {
			stop()
			return nil, nil, options.In("Metrics", err)
		}
		open, lines = append(open, end), append(lines, "metrics "+at.String())
	}
	if d.profiles != "" {
		at, end, err := openProfiles(d.profiles, log, d.fail)
		if err != nil {
			stop()
			return nil, nil, err
		}
		open, lines = append(open, end), append(lines, "profiles "+at.String())
	}
	return lines, stop, nil
}
