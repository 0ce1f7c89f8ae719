package bench

import (
	"image/color"
	"strings"

	"github.com/chivenet/chive/chivelab/plot"
)

// A figure is bars of some rows of a table: a group for each case or measure, and in it a bar
// for each way.
type figure struct {
	file, title, table string
	measure            string // of all bars; empty: each group is a measure
	condition          string // of all bars; empty and measure is set: each group is a case
	unit               string
	only               string // the end of the cases; empty: all
}

// figures are all figures.
var figures = []figure{
	{"connection-first", "A first connection, by stages: medians, with minimum and p95", tableConnection, "", caseFirst, unitMS, ""},
	{"connection-later", "A later connection, by stages: medians, with minimum and p95", tableConnection, "", caseLater, unitMS, ""},
	{"throughput", "A download over one connection: medians, with minimum and p95", tableThroughput, "download", "", unitRate, ""},
	{"ping-pong", "A round trip of 64 bytes: medians, with minimum and p95", tablePing, "round trip", "", unitMS, ""},
	{"memory-idle", "Memory of a node with its Tor daemon, by its peers, idle", tablePeers, "memory", "", unitMB, ", idle"},
	{"memory-traffic", "Memory of a node with its Tor daemon, by its peers, under traffic", tablePeers, "memory", "", unitMB, ", traffic"},
	{"processor-idle", "Processor time of a node with its Tor daemon, by its peers, idle", tablePeers, "processor", "", unitShare, ", idle"},
	{"processor-traffic", "Processor time of a node with its Tor daemon, by its peers, under traffic", tablePeers, "processor", "", unitShare, ", traffic"},
	{"shares-latency", "4 KiB under traffic, by the number of peers: medians, with minimum and p95", tableShares, "answer under traffic", "", unitMS, ""},
	{"shares-throughput", "What each peer gets when all download: medians, with minimum and p95", tableShares, "download, each peer", "", unitRate, ""},
	{"load-latency", "A round trip beside a load: medians, with minimum and p95", tableLoad, "round trip", "", unitMS, ""},
	{"load-throughput", "A download of 1 MiB beside a load: medians, with minimum and p95", tableLoad, "download of 1 MiB", "", unitRate, ""},
	{"circuits", "A connection, by how it gets its circuit: medians, with minimum and p95", tableCircuits, "connection", "", unitMS, ""},
	{"policies", "Policies toward a node with an onion and an address: medians, with minimum and p95", tablePolicies, "", "", unitMS, ""},
	{"links-connection", "A later connection over slow links, by stages: medians, with minimum and p95", tableLinks, "", caseLater, unitMS, ""},
	{"links-ping-pong", "A round trip over slow links: medians, with minimum and p95", tableLinks, "round trip", "", unitMS, ""},
	{"links-throughput", "A download over slow links: medians, with minimum and p95", tableLinks, "download", "", unitRate, ""},
}

// WriteFigures draws the report into a directory, each figure as PNG, PDF and SVG. Tables
// that were not measured have none.
func (r *Report) WriteFigures(dir string) error {
	for _, f := range figures {
		if c := f.draw(r); c != nil {
			if err := c.Save(dir, f.file); err != nil {
				return err
			}
		}
	}
	return nil
}

// axis is what the left side of a figure says.
var axis = map[string]string{unitMS: "milliseconds", unitRate: "megabytes per second", unitMB: "megabytes", unitShare: "percent of one processor"}

// rows returns what the figure is of.
func (f figure) rows(r *Report) (out []Row) {
	for _, row := range r.rows(f.table) {
		if row.Unit == f.unit && strings.HasSuffix(row.Case, f.only) && (f.measure == "" || row.Measure == f.measure) && (f.measure != "" || row.Case == f.condition) {
			out = append(out, row)
		}
	}
	return out
}

// draw draws the figure, or returns nil if there is nothing to draw.
func (f figure) draw(r *Report) *plot.Canvas {
	rows := f.rows(r)
	if len(rows) == 0 {
		return nil
	}
	ways, lines := shape(rows)
	c := plot.New(f.title)
	largest := 0.0
	for _, row := range rows {
		largest = max(largest, row.P95, row.Median)
	}
	a := c.NewAxes(90, 70, 700, 390, largest, axis[f.unit])
	slots := len(lines) * (len(ways) + 1)
	for i, l := range lines {
		for j, way := range ways {
			row, ok := r.find(f.table, way, l.condition, l.measure)
			if !ok {
				continue
			}
			x := a.Slot(i*(len(ways)+1)+j, slots) + 0.5*a.W/float64(slots)
			a.Bar(x, 0.85*a.W/float64(slots), 0, row.Median, plot.Color(j))
			top := row.Median
			if row.N > 1 {
				a.Error(x, row.Min, row.P95)
				top = max(top, row.P95)
			}
			c.Text(x, a.At(top)-5, min(11, 240/float64(slots)+2), plot.Center, number(row.Median), plot.Black)
		}
		name := l.measure
		if f.measure != "" {
			name = l.condition
		}
		middle := a.X + a.W*(float64(i)+0.5)/float64(len(lines))
		if f.measure == "" || l.condition != "" {
			c.Text(middle, a.Y+a.H+18+14*float64(i%2*min(len(lines)/7, 1)), 11, plot.Center, name, plot.Black)
		}
	}
	var colors []color.RGBA
	for j := range ways {
		colors = append(colors, plot.Color(j))
	}
	c.Key(810, 90, ways, colors)
	return c
}
