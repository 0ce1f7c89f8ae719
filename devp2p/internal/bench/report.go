package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// median returns the middle value.
func median[T cmp.Ordered](list []T) (m T) {
	if len(list) == 0 {
		return m
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

// stage returns the median of one of the stages.
func (r *Result) stage(f func(Stages) time.Duration) time.Duration {
	var list []time.Duration
	for _, s := range r.Setup {
		list = append(list, f(s))
	}
	return median(list)
}

// Rate returns the download's rate in bytes per second.
func (r *Result) Rate() float64 {
	if r.Download <= 0 {
		return 0
	}
	return float64(r.Bytes) / r.Download.Seconds()
}

// WriteText writes the results as tables.
func WriteText(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "connection (medians)\tTCP or onion\tRLPx\thello\tstatus\ttotal")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(t, "%s\t%v\t%v\t%v\t%v\t%v\n", r.Kind,
			brief(r.stage(func(s Stages) time.Duration { return s.Connect })), brief(r.stage(func(s Stages) time.Duration { return s.RLPx })),
			brief(r.stage(func(s Stages) time.Duration { return s.Hello })), brief(r.stage(func(s Stages) time.Duration { return s.Status })),
			brief(r.stage(Stages.Total)))
	}
	fmt.Fprintln(t, "\nspeed\tping-pong, median\t99 %\tdownload\t\t")
	for i := range results {
		r := &results[i]
		var p99 time.Duration
		if n := len(r.Echo); n > 0 {
			p99 = r.Echo[(n-1)*99/100]
		}
		fmt.Fprintf(t, "%s\t%v\t%v\t%.1f MB/s\t\t\n", r.Kind, brief(median(r.Echo)), brief(p99), r.Rate()/1e6)
	}
	fmt.Fprintln(t, "\npeers of a node\tpeers\tmemory\tprocessor, idle\t\t")
	for _, r := range results {
		for _, u := range r.Peers {
			fmt.Fprintf(t, "%s\t%d\t%.1f MB\t%.2f %% of a core\t\t\n", r.Kind, u.Peers, float64(u.RSS)/1e6, 100*u.CPU.Seconds()/u.Over.Seconds())
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return ratios(w, results)
}

// ratios compares Chive's onions with those of stock tors.
func ratios(w io.Writer, results []Result) error {
	find := func(k Kind) *Result {
		for i := range results {
			if results[i].Kind == k {
				return &results[i]
			}
		}
		return nil
	}
	c := find(Chive)
	part := func(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }
	for _, k := range []Kind{Tor, Vanilla} {
		s := find(k)
		if c == nil || s == nil {
			continue
		}
		if _, err := fmt.Fprintf(w, "\nChive's onion against %s: a connection takes %.2f of the time, ping-pong %.2f, and a download is %.1f times as fast.\n",
			k, part(c.stage(Stages.Total), s.stage(Stages.Total)), part(median(c.Echo), median(s.Echo)), c.Rate()/max(s.Rate(), 1)); err != nil {
			return err
		}
	}
	return nil
}

func brief(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// WriteJSON writes the results whole.
func WriteJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(results)
}
