package wan

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Within is how far two comparisons' values of one thing may be apart to agree.
const Within = .15

// Comparison says how the values of two directories differ, such as those of namespaces and of a simulator: of the same
// plan, and of the runs that count in both.
type Comparison struct {
	Sessions [2]Session `json:"sessions"` // the last of each
	Seeds    int        `json:"seeds"`
	Runs     int        `json:"runs"` // in each
	Cells    []Cell     `json:"cells"`
}

// Cell is one value of both.
type Cell struct {
	Loss     float64     `json:"loss"`
	Side     Side        `json:"side"`
	Measure  string      `json:"measure"`
	Size     int64       `json:"size,omitempty"`
	Quantile float64     `json:"quantile"`
	N        [2]int      `json:"n"`
	Failed   [2]int      `json:"failed"`
	Millis   [2]*float64 `json:"ms"`
	// Change is the second's time by the first's, less 1; nothing: one has none.
	Change *float64  `json:"change,omitempty"`
	Ratio  [2]*Ratio `json:"ratio"` // to C tor alone
	// RatioChange is that of the ratios.
	RatioChange *float64 `json:"ratio_change,omitempty"`
}

// Compare reads two directories and compares them. It changes neither, and the runs of one may be going on.
func Compare(first, second string) (*Comparison, error) {
	var found [2]*Found
	for i, dir := range []string{first, second} {
		var err error
		if found[i], err = Load(dir); err != nil {
			return nil, err
		}
	}
	a, b := found[0].Plan, found[1].Plan
	both := a
	both.Seeds, both.Losses = min(a.Seeds, b.Seeds), nil
	for _, l := range a.Losses {
		if slices.Contains(b.Losses, l) {
			both.Losses = append(both.Losses, l)
		}
	}
	a.Seeds, a.Losses, b.Seeds, b.Losses = 0, nil, 0, nil
	if !reflect.DeepEqual(a, b) {
		return nil, fault.New(fault.Config, "%s and %s have other relays, clients, rates or requests", first, second)
	}
	good := map[Task]int{}
	for _, f := range found {
		for t := range f.good() {
			good[t]++
		}
	}
	c := &Comparison{}
	seeds := map[int]bool{}
	for t, n := range good {
		if n == 2 {
			c.Runs++
			seeds[t.Seed] = true
		}
	}
	if c.Seeds = len(seeds); c.Runs == 0 {
		return nil, fault.New(fault.Config, "%s and %s have no run of the same seed, side and loss that counts", first, second)
	}
	var reports [2]*Report
	for i, f := range found {
		runs := slices.DeleteFunc(slices.Clone(f.runs), func(x RunResult) bool { return good[x.Task] < 2 })
		reports[i] = NewReport(&both, f.Sessions, runs, f.samples)
		if n := len(f.Sessions); n > 0 {
			c.Sessions[i] = f.Sessions[n-1]
		}
	}
	for _, x := range reports[0].Results {
		for _, y := range reports[1].Results {
			if x.key() == y.key() {
				c.Cells = append(c.Cells, cell(&x, &y))
			}
		}
	}
	return c, nil
}

// key is what a result is of.
func (x *Result) key() any {
	return Result{Loss: x.Loss, Side: x.Side, Measure: x.Measure, Size: x.Size, Quantile: x.Quantile}
}

func cell(x, y *Result) Cell {
	c := Cell{Loss: x.Loss, Side: x.Side, Measure: x.Measure, Size: x.Size, Quantile: x.Quantile, N: [2]int{x.N, y.N}, Failed: [2]int{x.Failed, y.Failed},
		Millis: [2]*float64{x.Millis, y.Millis}, Ratio: [2]*Ratio{x.Ratio, y.Ratio}}
	if x.Millis != nil && y.Millis != nil && *x.Millis > 0 {
		v := *y.Millis / *x.Millis - 1
		c.Change = &v
	}
	if x.Ratio != nil && y.Ratio != nil && x.Ratio.Value > 0 {
		v := y.Ratio.Value/x.Ratio.Value - 1
		c.RatioChange = &v
	}
	return c
}

// Table is the comparison for people.
func (c *Comparison) Table() string {
	var b strings.Builder
	for i, s := range c.Sessions {
		fmt.Fprintf(&b, "%s: %s, Chive %s, %s, TCP %s\n", []string{"first", "second"}[i], s.where(), s.Chive, s.Tor, s.Congestion)
	}
	fmt.Fprintf(&b, "%d seeds, %d runs in each; changes are the second's value by the first's, with a star above %.0f %%\n", c.Seeds, c.Runs, Within*100)
	var last Cell
	for i, x := range c.Cells {
		if i == 0 || x.Loss != last.Loss || x.Side != last.Side {
			fmt.Fprintf(&b, "\n%v, %g %% loss\n%-26s %6s %9s %9s %8s  %-21s %-21s %8s\n", x.Side, x.Loss*100, "", "n", "first ms", "second", "change", "first's ratio", "second's", "change")
		}
		last = x
		r := Result{Measure: x.Measure, Size: x.Size, Quantile: x.Quantile}
		text := fmt.Sprintf("%-26s %6d %9s %9s %8s  %-21v %-21v %8s", r.name(), x.N[0], millisText(x.Millis[0]), millisText(x.Millis[1]), changeText(x.Change), x.Ratio[0], x.Ratio[1], changeText(x.RatioChange))
		if x.Side == Baseline {
			text = fmt.Sprintf("%-26s %6d %9s %9s %8s", r.name(), x.N[0], millisText(x.Millis[0]), millisText(x.Millis[1]), changeText(x.Change))
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	b.WriteString("\n")
	for _, side := range Sides {
		for _, loss := range c.losses() {
			of := slices.DeleteFunc(slices.Clone(c.Cells), func(x Cell) bool { return x.Side != side || x.Loss != loss })
			if len(of) == 0 {
				continue
			}
			text := fmt.Sprintf("%v, %g %% loss: %s times", side, loss*100, within(of, func(x Cell) *float64 { return x.Change }))
			if side != Baseline {
				text += fmt.Sprintf(" and %s ratios", within(of, func(x Cell) *float64 { return x.RatioChange }))
			}
			fmt.Fprintf(&b, "%s are within %.0f %%\n", text, Within*100)
		}
	}
	return b.String()
}

func (c *Comparison) losses() (out []float64) {
	for _, x := range c.Cells {
		if !slices.Contains(out, x.Loss) {
			out = append(out, x.Loss)
		}
	}
	return out
}

// within says how many changes are small, of those that are known.
func within(cells []Cell, change func(Cell) *float64) string {
	n, of := 0, 0
	for _, x := range cells {
		v := change(x)
		if v == nil {
			continue
		}
		if of++; math.Abs(*v) <= Within {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, of)
}

func changeText(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case math.Abs(*v) > Within:
		return fmt.Sprintf("%+.0f%%*", *v*100)
	}
	return fmt.Sprintf("%+.0f%% ", *v*100)
}
