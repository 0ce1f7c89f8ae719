package linkcheck

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
)

// Value is a parameter, and what was measured.
type Value struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Want float64 `json:"want"`
	Got  float64 `json:"got"`
}

// Off is the difference as a share of the parameter. If that is 0, any difference is whole.
func (v Value) Off() float64 {
	if v.Want == v.Got {
		return 0
	}
	if v.Want == 0 {
		return 1
	}
	return math.Abs(v.Got-v.Want) / v.Want
}

// Report says what was found of a direction.
type Report struct {
	Link       string         `json:"link"`
	Attachment string         `json:"attachment"`
	Values     []Value        `json:"values"`
	TCP        *Goodput       `json:"tcp,omitempty"`
	Packets    int            `json:"packets"`
	Late       links.Lateness `json:"late"`
	Refused    string         `json:"refused,omitempty"` // why the values do not count
}

// Worst is the largest difference.
func (r *Report) Worst() float64 {
	worst := 0.0
	for _, v := range r.Values {
		worst = max(worst, v.Off())
	}
	return worst
}

// plan returns the packets that measure a direction. seconds is about how long each phase takes at most.
func plan(r links.Rules, seconds float64) []Volley {
	r = r.Defaults()
	small := 100
	one := func(size int) time.Duration { // on the link
		if r.Rate == 0 {
			return 0
		}
		return time.Duration(float64(size) * 8 / float64(r.Rate) * float64(time.Second))
	}
	// Packets are so rare that none waits for one that jitter holds back, as far as there is time.
	gap := max(10*time.Millisecond, 2*one(small), min(2*r.Spread, 50*time.Millisecond))
	if r.Jitter == links.Table {
		gap = max(gap, min(2*(slices.Max(r.Table)-slices.Min(r.Table)), 50*time.Millisecond))
	}
	out := []Volley{{delays, max(20, int(seconds/gap.Seconds())), small, gap}}
	if r.MeanLoss() > 0 {
		every := max(200*time.Microsecond, one(small)*3/2) // faster would measure this machine
		out = append(out, Volley{losses, max(100, int(2*seconds/every.Seconds())), small, every})
	}
	if r.Rate > 0 {
		n := min(float64(r.Queue)*.9, float64(r.Rate)/8*seconds)
		if r.Discipline == links.CoDel { // which drops nothing before an interval has passed
			n = min(n, float64(r.Rate)/8*(r.Interval.Seconds()*.9))
		}
		out = append(out, Volley{rates, max(10, int(n)/r.MTU), r.MTU, one(r.MTU) / 4})
	}
	return out
}

// values compares arrivals with rules.
func values(r links.Rules, volleys []Volley, all []arrival) []Value {
	var out []Value
	for _, v := range volleys {
		var got []arrival
		for _, a := range all {
			if a.phase == v.Phase {
				got = append(got, a)
			}
		}
		switch v.Phase {
		case delays:
			var took []time.Duration
			for _, a := range got {
				took = append(took, a.got-a.sent)
			}
			one := time.Duration(0)
			if r.Rate > 0 {
				one = time.Duration(float64(v.Size) * 8 / float64(r.Rate) * float64(time.Second))
			}
			out = append(out, Value{"delay", "ms", msOf(one + wantDelay(r)), msOf(trimmed(took))})
		case losses:
			out = append(out, Value{"loss", "%", 100 * r.MeanLoss(), 100 * (1 - float64(len(got))/float64(v.Count))})
		case rates:
			rate := slope(got) * float64(v.Size) * 8
			out = append(out, Value{"rate", "Mbit/s", float64(r.Rate) / 1e6, rate / 1e6})
		}
	}
	return out
}

func msOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// slope is how many packets came in a second: the median of what packets half of the row apart say, which a
// stall in between does not change much. What was lost has used the link as well, and counts.
func slope(got []arrival) float64 {
	slices.SortFunc(got, func(a, b arrival) int { return a.number - b.number })
	var all []float64
	for i, a := range got[:len(got)/2] {
		b := got[i+len(got)/2]
		all = append(all, float64(b.number-a.number)/(b.got-a.got).Seconds())
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// trimmed is the mean without the tenth at each end, where a stall of a program would be.
func trimmed(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	d = d[len(d)/10 : len(d)-len(d)/10]
	if len(d) == 0 {
		return 0
	}
	sum := time.Duration(0)
	for _, x := range d {
		sum += x
	}
	return sum / time.Duration(len(d))
}

// wantDelay is the trimmed mean that the rules give: of a pipe without rate and loss, in its own time.
func wantDelay(r links.Rules) time.Duration {
	r.Rate, r.Loss, r.Burst = 0, 0, links.Burst{}
	p, err := links.NewPipe(r, nil, 12345)
	if err != nil {
		return 0 // the rules were checked
	}
	var took []time.Duration
	for i := range 20_000 {
		at := time.Duration(i) * time.Hour
		for _, o := range p.Arrive(at, uint64(i), 100) {
			took = append(took, o.At-at)
		}
	}
	return trimmed(took)
}

// Table is the report as lines of text.
func (r *Report) Table() string {
	s := ""
	for _, v := range r.Values {
		s += fmt.Sprintf("%-20s %-10s %-6s %10.3f %10.3f %-7s %6.2f %%\n", r.Link, r.Attachment, v.Name, v.Want, v.Got, v.Unit, 100*v.Off())
	}
	return s
}

// Head is the line above tables.
func Head() string {
	return fmt.Sprintf("%-20s %-10s %-6s %10s %10s %-7s %8s\n", "link", "attached", "what", "wanted", "measured", "unit", "off by")
}
