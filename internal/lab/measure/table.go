package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// row is one line of the table: what, and each subject's value.
type row struct {
	what   string
	values []string
}

// WriteTable writes the reports side by side, one column for each. A missing
// measurement is "-".
func WriteTable(w io.Writer, reports ...*Report) error {
	t := &table{reports: reports}
	for i := range mostTransfers(reports) {
		t.transfer(i)
	}
	t.latency("round trip 64 B", func(r *Report) *Latency { return r.Ping })
	for i := range reports {
		if l := reports[i].Loaded; l != nil {
			t.latency(fmt.Sprintf("round trip 64 B beside %d circuits", l.Circuits), func(r *Report) *Latency {
				if r.Loaded == nil {
					return nil
				}
				return &r.Loaded.Ping
			})
			t.add("their throughput, MB/s", func(r *Report) (string, bool) {
				if r.Loaded == nil {
					return "", false
				}
				return fmt.Sprintf("%.1f", r.Loaded.MBps), true
			})
			break
		}
	}
	t.connect("connect", (*Report).Alone)
	t.connect("connect, its own circuit", func(r *Report) *Connect { return r.Apart })
	t.connect("connect, a crowd", func(r *Report) *Connect { return r.Crowd })
	t.add("3-hop build, median ms (hops)", func(r *Report) (string, bool) {
		if r.Build == nil {
			return "", false
		}
		var hops []string
		for _, h := range r.Build.Hops {
			hops = append(hops, fmt.Sprintf("%.2f", h.Median))
		}
		return fmt.Sprintf("%.2f (%s)", r.Build.Total.Median, strings.Join(hops, "/")), true
	})
	t.add("bootstrap, cold / warm, s", func(r *Report) (string, bool) {
		if r.Bootstrap == nil {
			return "", false
		}
		return fmt.Sprintf("%.2f / %.2f", r.Bootstrap.Cold, r.Bootstrap.Warm), true
	})
	t.add("RSS with the most streams open, MB", func(r *Report) (string, bool) {
		m := r.fullMemory()
		var all []string
		for _, p := range m {
			all = append(all, fmt.Sprintf("%s %.1f", p.Process, p.RSS))
		}
		return strings.Join(all, ", "), len(m) > 1
	})
	t.add("RSS idle, MB", func(r *Report) (string, bool) {
		if len(r.Idle) == 0 {
			return "", false
		}
		return fmt.Sprintf("%.1f", r.Idle[0].RSS), true
	})
	t.add("RSS (peak), MB", func(r *Report) (string, bool) {
		if len(r.Memory) == 0 {
			return "", false
		}
		return fmt.Sprintf("%.1f (%.1f)", r.Memory[0].RSS, r.Memory[0].Peak), true
	})
	return t.write(w)
}

type table struct {
	reports []*Report
	rows    []row
}

// add appends a row unless no report has a value for it.
func (t *table) add(what string, value func(*Report) (string, bool)) {
	r, any := row{what: what}, false
	for _, rep := range t.reports {
		v, ok := value(rep)
		if any = any || ok; !ok {
			v = "-"
		}
		r.values = append(r.values, v)
	}
	if any {
		t.rows = append(t.rows, r)
	}
}

// transfer adds the i-th transfer of the first report that has so many; the
// others are matched by streams and direction.
func (t *table) transfer(i int) {
	var key Throughput
	for _, r := range t.reports {
		if i < len(r.Throughput) {
			key = r.Throughput[i]
			break
		}
	}
	t.add(key.String()+", MB/s (CPU us per cell)", func(r *Report) (string, bool) {
		for _, x := range r.Throughput {
			if x.Streams != key.Streams || x.Circuits != key.Circuits || x.Direction != key.Direction {
				continue
			}
			v := fmt.Sprintf("%.1f", x.MBps)
			var cpu []string
			for _, c := range x.CPU {
				cpu = append(cpu, fmt.Sprintf("%s %.2f", c.Process, c.MicrosPerCell))
			}
			if len(cpu) > 0 {
				v += " (" + strings.Join(cpu, ", ") + ")"
			}
			return v, true
		}
		return "", false
	})
}

func (t *table) connect(what string, get func(*Report) *Connect) {
	part := func(of func(*Connect) *Latency) func(*Report) *Latency {
		return func(r *Report) *Latency {
			if c := get(r); c != nil {
				return of(c)
			}
			return nil
		}
	}
	t.latency(what, part(func(c *Connect) *Latency { return &c.Answer }))
	t.latency(what+", to the first byte", part(func(c *Connect) *Latency { return &c.FirstByte }))
	t.add(what+", CPU us", func(r *Report) (string, bool) {
		if c := get(r); c != nil && c.CPU > 0 {
			return fmt.Sprintf("%.0f", c.CPU), true
		}
		return "", false
	})
}

func (t *table) latency(what string, get func(*Report) *Latency) {
	t.add(what+", ms: min / median / p95 / p99", func(r *Report) (string, bool) {
		l := get(r)
		if l == nil {
			return "", false
		}
		return fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", l.Min, l.Median, l.P95, l.P99), true
	})
}

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range t.reports {
		fmt.Fprintf(tw, "\t%s", r.Name)
	}
	fmt.Fprintln(tw)
	for _, r := range t.rows {
		fmt.Fprintf(tw, "%s\t%s\n", r.what, strings.Join(r.values, "\t"))
	}
	return tw.Flush()
}

// fullMemory returns the memory of the processes while the most streams were
// open.
func (r *Report) fullMemory() []Memory {
	var most Throughput
	for _, t := range r.Throughput {
		if t.Streams >= most.Streams {
			most = t
		}
	}
	return most.Memory
}

func mostTransfers(reports []*Report) int {
	most := 0
	for _, r := range reports {
		most = max(most, len(r.Throughput))
	}
	return most
}
