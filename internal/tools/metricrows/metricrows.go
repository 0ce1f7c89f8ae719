// Package metricrows writes the tables of metrics in the documents, and reads them and dashboards for tests.
package metricrows

import (
	"fmt"
	"strings"

	"github.com/chivenet/chive/internal/metrics"
)

// Head is the head of a table.
const Head = "| metric | type | labels | unit | meaning | command |\n|---|---|---|---|---|---|\n"

// Rows are the rows of a registry's metrics, which these commands have.
func Rows(r *metrics.Registry, commands ...string) string {
	var b strings.Builder
	for _, f := range r.Families() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | `%s` |\n", f.Name, f.Type, labels(f.Labels), Unit(f.Name, f.Help), strings.ReplaceAll(f.Help, "|", `\|`), strings.Join(commands, "`, `"))
	}
	return b.String()
}

// labels joins the values of each label.
func labels(pairs []string) string {
	var names []string
	values := map[string][]string{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = append(values[name], strings.Trim(value, `"`))
	}
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("`%s`: %s", n, strings.Join(values[n], ", ")))
	}
	return strings.Join(out, "; ")
}

// Unit is the unit of a metric, which its name or its help text tells.
func Unit(name, help string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return "seconds since 1970"
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	case strings.HasSuffix(name, "_bandwidth_bytes"):
		return "bytes a second"
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	case strings.HasPrefix(help, "1 if "):
		return "0 or 1"
	}
	return "number"
}

// Row is a row of a table.
type Row struct {
	Name, Type, Labels, Unit, Meaning string
	Commands                          []string
}

// Read returns the rows of all tables of a page.
func Read(page []byte) (rows []Row) {
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "\x00")), " | ")
		if len(cells) != 6 || !strings.HasPrefix(line, "| `") {
			continue
		}
		r := Row{Name: strings.Trim(cells[0], "| `"), Type: cells[1], Labels: cells[2], Unit: cells[3], Meaning: strings.ReplaceAll(cells[4], "\x00", "|")}
		for c := range strings.SplitSeq(strings.TrimSuffix(cells[5], " |"), ", ") {
			r.Commands = append(r.Commands, strings.Trim(c, "`"))
		}
		rows = append(rows, r)
	}
	return rows
}
