package main

import (
	"bytes"
	"fmt"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/tools/metricrows"
)

// The tables of docs/metrics.md are between these lines. What stands around them is
// written by hand.
const (
	metricsBegin = "<!-- metrics: begin -->\n"
	metricsEnd   = "<!-- metrics: end -->\n"
)

// metricsPage is docs/metrics.md with the tables that the programs give.
func metricsPage(page []byte) ([]byte, error) {
	head, rest, began := bytes.Cut(page, []byte(metricsBegin))
	_, tail, ended := bytes.Cut(rest, []byte(metricsEnd))
	if !began || !ended {
		return nil, fmt.Errorf("no lines %q and %q", metricsBegin, metricsEnd)
	}
	return bytes.Join([][]byte{head, []byte(metricsBegin), metricsTables(), []byte(metricsEnd), tail}, nil), nil
}

func metricsTables() []byte {
	var b bytes.Buffer
	for _, s := range cli.MetricSources {
		r := new(metrics.Registry)
		s.Describe(r)
		fmt.Fprintf(&b, "\n### %s\n\n%s%s", s.Title, metricrows.Head, metricrows.Rows(r, s.Commands...))
	}
	b.WriteByte('\n')
	return b.Bytes()
}
