package appearance

import (
	"fmt"
	"slices"
)

// ratio: the means of the two subjects' numbers, in which each client counts the same, differ by no more than a factor
// or a number.
type ratio struct{ By, Or float64 }

func (r ratio) differ(a, b [][]string) (bool, bool) {
	x, y := average(a), average(b)
	return max(x, y) > min(x, y)*r.By && max(x, y)-min(x, y) > r.Or, len(averages(a)) > 0 && len(averages(b)) > 0
}

func (r ratio) show(a [][]string) string { return mean{}.show(a) }

func (r ratio) String() string {
	return fmt.Sprintf("means, at most %g or a factor of %g apart", r.Or, r.By)
}

// spread: the greatest distance of the distributions of all numbers of the two subjects is at most D (Kolmogorov and
// Smirnov). At least N of each are needed, unless neither has any.
type spread struct {
	N int
	D float64
}

func (s spread) differ(a, b [][]string) (bool, bool) {
	x, y := numbers(pool(a)), numbers(pool(b))
	if len(x) == 0 && len(y) == 0 {
		return false, true
	}
	return distance(x, y) > s.D, len(x) >= s.N && len(y) >= s.N
}

func (s spread) show(a [][]string) string {
	x := slices.Sorted(slices.Values(numbers(pool(a))))
	if len(x) == 0 {
		return "none"
	}
	at := func(part float64) float64 { return x[int(part*float64(len(x)-1))] }
	return fmt.Sprintf("%d: %.4g, %.4g, %.4g, %.4g, %.4g", len(x), at(0), at(.25), at(.5), at(.75), at(1))
}

func (s spread) String() string {
	return fmt.Sprintf("distributions of %d or more, distance at most %.2f (number, least, quartiles, most)", s.N, s.D)
}
