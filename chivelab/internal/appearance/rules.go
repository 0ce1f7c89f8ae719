package appearance

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A rule compares what a feature has found of two subjects. Each client of a subject gives one list of values.
type rule interface {
	// differ returns whether the two are different; known is false if there is too little to say so.
	differ(a, b [][]string) (different, known bool)
	// show tells the values of one subject in a few words.
	show(a [][]string) string
	String() string
}

// same: the two subjects have shown the same set of values.
type same struct{}

// usual: the value that each subject shows most often is the same.
type usual struct{}

// each: values are "KIND: VALUE", and for each kind that both subjects have shown the set of values is the same.
type each struct{}

// share: the share of values that are "yes" differs by less than Within. At least N values of each are needed.
type share struct {
	N      int
	Within float64
}

// mean: the means of the two subjects' numbers, in which each client counts the same, differ by no more than Within.
type mean struct{ Within float64 }

// sample: a two-sample test of Kolmogorov and Smirnov on the first N numbers of each subject: the greatest
// distance of the two distributions is at most D.
type sample struct {
	N int
	D float64
}

func pool(a [][]string) []string { return slices.Concat(a...) }

func set(a [][]string) []string {
	s := pool(a)
	slices.Sort(s)
	return slices.Compact(s)
}

func (same) differ(a, b [][]string) (bool, bool) {
	x, y := set(a), set(b)
	return !slices.Equal(x, y), len(x)+len(y) > 0
}

func (same) show(a [][]string) string { return list(set(a)) }

func (same) String() string { return "equal" }

func (each) differ(a, b [][]string) (different, known bool) {
	kinds := func(all []string) map[string][]string {
		out := map[string][]string{}
		for _, v := range all {
			kind, value, _ := strings.Cut(v, ": ")
			out[kind] = append(out[kind], value)
		}
		return out
	}
	x, y := kinds(set(a)), kinds(set(b))
	for kind, values := range x {
		if others, both := y[kind]; both {
			known = true
			different = different || !slices.Equal(values, others)
		}
	}
	return different, known
}

func (each) show(a [][]string) string { return list(set(a)) }

func (each) String() string { return "equal, of the kinds that both show" }

func list(values []string) string {
	if len(values) == 0 {
		return "none"
	}
	const most = 16
	if len(values) > most {
		return strings.Join(values[:most], "; ") + fmt.Sprintf("; and %d more", len(values)-most)
	}
	return strings.Join(values, "; ")
}

func commonest(a [][]string) string {
	count := map[string]int{}
	for _, v := range pool(a) {
		count[v]++
	}
	keys := slices.Sorted(maps.Keys(count))
	if len(keys) == 0 {
		return ""
	}
	return slices.MaxFunc(keys, func(x, y string) int { return cmp.Compare(count[x], count[y]) })
}

func (usual) differ(a, b [][]string) (bool, bool) {
	x, y := commonest(a), commonest(b)
	return x != y, len(pool(a)) > 0 && len(pool(b)) > 0
}

func (usual) show(a [][]string) string { return list(set([][]string{{commonest(a)}})) }

func (usual) String() string { return "the usual value" }

func portion(a [][]string) (float64, int) {
	n := 0
	all := pool(a)
	for _, v := range all {
		if v == "yes" {
			n++
		}
	}
	return float64(n) / float64(max(1, len(all))), len(all)
}

func (s share) differ(a, b [][]string) (bool, bool) {
	x, n := portion(a)
	y, m := portion(b)
	return math.Abs(x-y) >= s.Within, n >= s.N && m >= s.N
}

func (s share) show(a [][]string) string {
	x, n := portion(a)
	return fmt.Sprintf("%.0f %% of %d", 100*x, n)
}

func (s share) String() string {
	return fmt.Sprintf("shares of %d or more, less than %.0f points apart", s.N, 100*s.Within)
}

// numbers reads values; what is no number was made by no feature.
func numbers(values []string) []float64 {
	var out []float64
	for _, v := range values {
		var x float64
		if _, err := fmt.Sscan(v, &x); err == nil {
			out = append(out, x)
		}
	}
	return out
}

func averages(a [][]string) []float64 {
	var out []float64
	for _, client := range a {
		ns := numbers(client)
		if len(ns) == 0 {
			continue
		}
		sum := 0.0
		for _, n := range ns {
			sum += n
		}
		out = append(out, sum/float64(len(ns)))
	}
	return out
}

func average(a [][]string) float64 {
	sum, n := 0.0, averages(a)
	for _, x := range n {
		sum += x
	}
	return sum / float64(max(1, len(n)))
}

func (m mean) differ(a, b [][]string) (bool, bool) {
	return math.Abs(average(a)-average(b)) > m.Within, len(averages(a)) > 0 && len(averages(b)) > 0
}

func (m mean) show(a [][]string) string {
	var out []string
	for _, x := range averages(a) {
		out = append(out, fmt.Sprintf("%.4g", x))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

func (m mean) String() string { return fmt.Sprintf("means, at most %g apart", m.Within) }

func (s sample) differ(a, b [][]string) (bool, bool) {
	x, y := numbers(pool(a)), numbers(pool(b))
	if len(x) < s.N || len(y) < s.N {
		return false, false
	}
	return distance(x[:s.N], y[:s.N]) > s.D, true
}

// distance is the greatest distance of two samples' distributions.
func distance(x, y []float64) float64 {
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	most, i, j := 0.0, 0, 0
	for i < len(x) && j < len(y) {
		at := min(x[i], y[j])
		for i < len(x) && x[i] <= at {
			i++
		}
		for j < len(y) && y[j] <= at {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(x))-float64(j)/float64(len(y))))
	}
	return most
}

func (s sample) show(a [][]string) string {
	x := slices.Sorted(slices.Values(numbers(pool(a))))
	if len(x) == 0 {
		return "none"
	}
	return fmt.Sprintf("median %.4g, from %.4g to %.4g", x[len(x)/2], x[0], x[len(x)-1])
}

func (s sample) String() string {
	return fmt.Sprintf("two samples of %d, distance at most %.2f", s.N, s.D)
}
