package bench

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/chivenet/chive/chivelab/plot"
)

// number writes a value for people.
func number(v float64) string { return plot.Number(v) }

// tables are all tables, with what a reader must know of each.
var tables = []struct{ name, title, about string }{
	{tableConnection, "Connections by stages", "From nothing to a peer of RLPx: TCP or the onion, RLPx's handshake, hello, and a status like that of eth/69. Each has a circuit of its own. Before a first connection the client takes a new identity: it has neither the onion's descriptor nor a circuit. Later ones have the descriptor."},
	{tableThroughput, "Downloads", "One connection at a time, in messages of 64 KiB."},
	{tablePing, "Ping-pong", "Round trips of messages of 64 bytes, one after the other."},
	{tablePeers, "Memory and processor", "Of the node's process and, where there is one, its Tor daemon; 100 % is one processor. Under traffic, each peer fetches 4 KiB four times a second."},
	{tableShares, "What each peer gets", "The time until those 4 KiB are there; then all peers download at once."},
	{tableLoad, "Beside a load", "Four other connections take a share of what they get together where nothing bounds them. On one machine that is a share of its processors."},
	{tableCircuits, "Circuits", "Connections over one circuit for all, over a circuit for each peer, and over one for each that was built before."},
	{tablePolicies, "Policies", "Toward a node that has an onion and an address. On one machine the address is always the faster one, and adaptive finds that out. Hybrid by class sends transactions by a connection to the onion and has bodies come by one to the address; both are counted as its connection."},
	{tableLinks, "Over slow links", "Both ends are behind a link of 25 ms, one way, and 10 Mbit/s, each way; relays are not. The links are proxies that carry bytes: no packet is lost, and no kernel sees the delay."},
}

// WriteText writes all rows as tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s; %d processors (%s), %s, %s; chive %s; %s\n", r.About.Day, r.About.Processors, r.About.Processor, r.About.System, r.About.Go, r.About.Chive, r.About.Tor)
	if !r.About.Namespace {
		fmt.Fprintln(w, "NOT in a network namespace: delayed acknowledgements count")
	}
	for _, t := range tables {
		rows := r.rows(t.name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n%s\n\n", t.title, t.about)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "way\tcase\twhat\tunit\tn\tmin\tmean\tmedian\tp95\tp99\tmax\t")
		for _, row := range rows {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t", row.Way, row.Case, row.Measure, row.Unit)
			if row.N == 1 {
				fmt.Fprintf(tw, "1\t\t%s\t\t\t\t\t\n", number(row.Mean))
				continue
			}
			fmt.Fprintf(tw, "%d", row.N)
			for _, v := range []float64{row.Min, row.Mean, row.Median, row.P95, row.P99, row.Max} {
				fmt.Fprintf(tw, "\t%s", number(v))
			}
			fmt.Fprintln(tw, "\t")
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes the report whole.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(r)
}

// WriteCSV writes a line for each row.
func (r *Report) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	err := c.Write([]string{"table", "way", "case", "measure", "unit", "n", "min", "mean", "median", "p95", "p99", "max"})
	for _, t := range tables {
		for _, row := range r.rows(t.name) {
			line := []string{row.Table, row.Way, row.Case, row.Measure, row.Unit, strconv.Itoa(row.N)}
			for _, v := range []float64{row.Min, row.Mean, row.Median, row.P95, row.P99, row.Max} {
				line = append(line, strconv.FormatFloat(v, 'g', 6, 64))
			}
			err = errors.Join(err, c.Write(line))
		}
	}
	c.Flush()
	return errors.Join(err, c.Error())
}

// shape returns the ways of rows, and their cases with measures, each in the order in
// which it first comes.
func shape(rows []Row) (ways []string, lines []subject) {
	for _, row := range rows {
		if !slices.Contains(ways, row.Way) {
			ways = append(ways, row.Way)
		}
		if l := (subject{row.Case, row.Measure, row.Unit}); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	return ways, lines
}

// subject is what a line of a table of ways is about.
type subject struct{ condition, measure, unit string }
