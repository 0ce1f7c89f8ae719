package cli

import (
	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/relay"
)

// MetricSource is a part of Chive that counts, and the commands whose --metrics has
// what it counts.
type MetricSource struct {
	Title    string
	Commands []string
	Describe func(*metrics.Registry)
}

// MetricSources are all of them, for documents.
var MetricSources = []MetricSource{
	{"A client", clients, client.DescribeMetrics},
	{"Ports for programs", clients, daemon.DescribePorts},
	{"Onion services", clients, daemon.DescribeOnions},
	{"A relay, an exit or a bridge", []string{"chive relay"}, relay.DescribeMetrics},
	{"A directory authority", []string{"chive authority"}, authority.DescribeMetrics},
	{"Format-transforming encryption", []string{"chive fte"}, func(r *metrics.Registry) { register(r, new(fte.Stats), false) }},
}

var clients = []string{"chive proxy", "chive onion serve", "chive onion balance"}
