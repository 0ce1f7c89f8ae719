package bench

import (
	"fmt"
	"io"
	"strings"
)

// WritePage writes the report as a page of documents: of each thing one line, of each way
// one column, and beside them what the report says that this one answers.
func (r *Report) WritePage(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# What onions cost Ethereum's nodes\n\n")
	fmt.Fprintf(&b, "`chive-eth bench --report DIR%s` made this page on %s: %d processors (%s), %s; chive %s, %s. ", r.Sizes.flags(), r.About.Day, r.About.Processors, r.About.Processor, r.About.Go, r.About.Chive, r.About.Tor)
	if r.About.Namespace {
		b.WriteString("All ran in a network namespace whose loopback acknowledges at once. ")
	} else {
		b.WriteString("It did NOT run in a network namespace: the kernel's delayed acknowledgements count, from which a stock tor suffers most. ")
	}
	b.WriteString("Relays, nodes and peers share the machine, so only ratios hold elsewhere. ")
	fmt.Fprintf(&b, "Of each kind it made %d first and %d later connections, %d downloads of %d MB and %d round trips, and measured for %v at each number of peers and each load.\n\n",
		r.Sizes.Firsts, r.Sizes.Connections, r.Sizes.Downloads, r.Sizes.Bytes/1_000_000, r.Sizes.Rounds, r.Sizes.While)
	b.WriteString("| way | a peer is reached |\n|---|---|\n| clearnet | by its address |\n| chive | by its onion; clients and relays are Chive's |\n| tor | by its onion; the clients are stock tor daemons with their usual scheduler (KIST), the relays Chive's |\n" +
		"| tor-vanilla, tor-kist | by its onion; all is stock tor, with this scheduler |\n\n")
	b.WriteString("No tor learns how long a circuit may take to be built (`LearnCircuitBuildTimeout 0`): on one machine it learns some 50 ms, and in a burst of connections gives up circuits that take longer. ")
	b.WriteString("Six numbers are minimum; mean; median; p95; p99; maximum. One number is the median, or all that there is. " +
		"\"Founding report\" is *Tor Integration Performance Benchmarks* 1.0 of 2025-11-09, of gethrelay and tor 0.4.8.10 over the public Tor network, on another machine (14 cores); it gives no raw data, " +
		"and what can be compared stands above each table.\n")
	for _, t := range tables {
		rows := r.rows(t.name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n*Compared:* %s\n\n", t.title, t.about, comparable[t.name])
		r.pageTable(&b, t.name, rows)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pageTable writes one table.
func (r *Report) pageTable(b *strings.Builder, table string, rows []Row) {
	ways, lines := shape(rows)
	old := founding[table]
	head, rule := "| |", "|---|"
	for _, way := range ways {
		head, rule = head+" "+way+" |", rule+"---|"
	}
	if old != nil {
		head, rule = head+" founding report: clearnet | with Tor |", rule+"---|---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, rule)
	for _, l := range lines {
		name := l.measure
		if l.condition != "" {
			name = l.condition + ": " + name
		}
		fmt.Fprintf(b, "| %s, %s |", name, l.unit)
		for _, way := range ways {
			text := ""
			if row, ok := r.find(table, way, l.condition, l.measure); ok {
				text = row.text(full(table, l))
			}
			fmt.Fprintf(b, " %s |", text)
		}
		if old != nil {
			fmt.Fprintf(b, " %s | %s |", old[l].clear, old[l].tor)
		}
		b.WriteByte('\n')
	}
}

// full reports whether a line of the page has whole distributions: for others, the files
// beside the page have them.
func full(table string, l subject) bool {
	return table == tableThroughput || table == tablePing || table == tableConnection && l.measure == stageAll
}

// text writes a row for a cell: whole, or its median.
func (row Row) text(whole bool) string {
	if !whole || row.N == 1 {
		return number(row.Median)
	}
	var list []string
	for _, v := range []float64{row.Min, row.Mean, row.Median, row.P95, row.P99, row.Max} {
		list = append(list, number(v))
	}
	return strings.Join(list, "; ")
}
