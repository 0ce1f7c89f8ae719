package daemon

import (
	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/socks"
)

// DescribePorts names in r what the ports for programs count, for documents.
func DescribePorts(r *metrics.Registry) {
	for _, server := range servers {
		server(socks.Config{Metrics: r})
	}
}

// DescribeOnions names in r what onion services count, for documents: as if there were
// one, whose name is NAME.
func DescribeOnions(r *metrics.Registry) {
	register(r, []chive.OnionStatus{{Name: "NAME", PoW: &chive.OnionPoW{Refused: map[string]uint64{"REASON": 0}}}})
}
