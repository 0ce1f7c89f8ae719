package appearance

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// dayFeature is one row of a day's table.
type dayFeature struct {
	name, what string
	rule       rule
	see        func(t *Trace) []string
}

// ReadDay reads what was recorded of a day, from the directory in which the simulator has run.
func ReadDay(dir string) ([]*Trace, error) {
	text, err := os.ReadFile(filepath.Join(dir, "shadow.data", DayTrace))
	if err != nil {
		return nil, fault.New(fault.Local, "the simulation has not ended well: %w", err)
	}
	var out []*Trace
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fault.New(fault.Local, "%s: %w", DayTrace, err)
	}
	return out, nil
}

// CompareDay makes the table of a day: a row for each feature of the clients of each role.
func CompareDay(traces []*Trace, first, second string) []Row {
	var rows []Row
	for _, role := range dayRoles {
		for _, f := range dayFeatures(role) {
			values := func(subject string) (out [][]string) {
				for _, t := range traces {
					if t.Subject == subject && t.Role == role {
						out = append(out, f.see(t))
					}
				}
				return out
			}
			a, b := values(first), values(second)
			different, known := f.rule.differ(a, b)
			rows = append(rows, Row{role + "-" + f.name, role, f.what, f.rule.String(), f.rule.show(a), f.rule.show(b), different && known, !known})
		}
	}
	return rows
}

// dayFeatures are the rows of one role. Clients of a day are few, and what one of them does hangs together: the rules
// let pass what C tor's clients show among themselves.
func dayFeatures(role string) []dayFeature {
	out := []dayFeature{
		{"links", "connections to relays", ratio{1.6, 1.5}, func(t *Trace) []string { return count(len(t.Links)) }},
		{"links-life", "seconds from begin to end of a connection", spread{6, 0.6}, numbersOf((*Trace).linkLives)},
		{"links-quiet", "seconds from a connection's last cell of a circuit to its end", spread{6, 0.6}, numbersOf((*Trace).linkQuiet)},
		{"relays", "relays that it has connections to", ratio{1.5, 1.5}, func(t *Trace) []string {
			at := map[int]bool{}
			for _, l := range t.Links {
				at[l.Relay] = true
			}
			return count(len(at))
		}},
		{"padding", "padding cells of the client", ratio{1.3, 10}, func(t *Trace) []string {
			n := 0
			for _, l := range t.Links {
				n += len(l.Padding)
			}
			return count(n)
		}},
		{"padding-gaps", "seconds from one padding cell of a connection to the next", spread{100, 0.15}, numbersOf((*Trace).paddingGaps)},
		{"circuits", "circuits of several hops", ratio{1.2, 3}, func(t *Trace) []string { return count(len(t.several())) }},
		{"circuits-life", "seconds until the client closes such a circuit", spread{20, 0.3}, numbersOf(func(t *Trace) []float64 { return t.lives(t.several()) })},
		{"sets", "legs of conflux sets", ratio{1.3, 3}, func(t *Trace) []string { return count(len(t.saying("CONFLUX_LINK"))) }},
		{"circuits-second", "whether such circuits begin at the usual part of a second: C tor's begin by its clock, but for those that somebody waits for", share{20, 0.1}, (*Trace).onSecond},
		{"circuits-left", "circuits that the client has not destroyed when their connection ends", ratio{4, 1.5}, func(t *Trace) []string {
			n := 0
			for _, c := range t.Circuits {
				if c.Destroyed == 0 && c.Link < len(t.Links) && t.Links[c.Link].Ended > 0 {
					n++
				}
			}
			return count(n)
		}},
		{"directory-relays", "relays that circuits of one hop lead to", mean{Within: 1}, func(t *Trace) []string {
			at := map[int]bool{}
			for _, c := range t.single() {
				if len(c.Relays) > 0 {
					at[c.Relays[0]] = true
				}
			}
			return count(len(at))
		}},
		{"directory-circuits", "circuits of one hop", ratio{1.3, 2}, func(t *Trace) []string { return count(len(t.Circuits) - len(t.several())) }},
		{"directory-life", "seconds until the client closes such a circuit", spread{6, 0.6}, numbersOf(func(t *Trace) []float64 { return t.lives(t.single()) })},
		{"reasons", "the reasons of DESTROY", same{}, func(t *Trace) []string {
			var out []string
			for _, c := range t.Circuits {
				if c.Destroyed > 0 {
					out = append(out, count(int(c.Reason))...)
				}
			}
			return out
		}},
		{"last-circuit", "hours until the last circuit of several hops begins", mean{Within: 0.6}, func(t *Trace) []string {
			cs := t.several()
			if len(cs) == 0 || len(t.Links) == 0 {
				return nil
			}
			return one("%.3f", (cs[len(cs)-1].Began-t.Links[0].Opened)/3600)
		}},
		{"requests", "the forms of requests for the directory", same{}, func(t *Trace) []string {
			var out []string
			for _, q := range t.Requests {
				out = append(out, q.Form)
			}
			return out
		}},
		{"consensus", "requests for a consensus", mean{Within: 3}, func(t *Trace) []string { return count(len(t.asked("/consensus"))) }},
		{"consensus-hour", "seconds from the last full hour to such a request", spread{8, 0.5}, numbersOf(func(t *Trace) []float64 {
			var out []float64
			for _, at := range t.asked("/consensus") {
				out = append(out, math.Mod(at, 3600))
			}
			return out
		})},
		{"consensus-gaps", "seconds from one such request to the next", spread{8, 0.5}, numbersOf(func(t *Trace) []float64 { return gaps(t.asked("/consensus")) })},
		{"microdescs", "requests for microdescriptors", mean{Within: 4}, func(t *Trace) []string { return count(len(t.asked("/micro/"))) }},
		{"microdescs-after", "seconds from the consensus to such a request", spread{8, 0.5}, numbersOf((*Trace).microdescsAfter)},
		{"keys", "requests for authorities' certificates", mean{Within: 1}, func(t *Trace) []string { return count(len(t.asked("/keys/"))) }},
	}
	switch role {
	case dayUser:
		out = append(out,
			dayFeature{"begin-circuits", "circuits with streams", ratio{1.3, 1.5}, func(t *Trace) []string { return count(len(t.saying("BEGIN"))) }},
			dayFeature{"begin-life", "seconds until the client closes such a circuit", spread{6, 0.6}, numbersOf(func(t *Trace) []float64 { return t.lives(t.saying("BEGIN")) })})
	case dayService:
		out = append(out,
			dayFeature{"points-start", "seconds from the first request for the directory to the first circuit for introductions", mean{Within: 0.6}, func(t *Trace) []string {
				return t.afterStart(began(t.saying("ESTABLISH_INTRO")))
			}},
			dayFeature{"uploads-start", "seconds from the first request for the directory to the first upload", mean{Within: 0.6}, func(t *Trace) []string {
				return t.afterStart(t.asked("POST "))
			}},
			dayFeature{"spares", "circuits of four hops of the first minute that are for nothing", mean{Within: 1}, func(t *Trace) []string {
				n := 0
				for _, c := range t.several() {
					if c.Asked == 4 && len(c.Said) == 0 && c.Began < t.start()+60 {
						n++
					}
				}
				return count(n)
			}},
			dayFeature{"points", "circuits with ESTABLISH_INTRO", ratio{1.3, 3}, func(t *Trace) []string { return count(len(t.saying("ESTABLISH_INTRO"))) }},
			dayFeature{"points-life", "seconds until the service closes such a circuit", spread{6, 0.6}, numbersOf(func(t *Trace) []float64 { return t.lives(t.saying("ESTABLISH_INTRO")) })},
			dayFeature{"uploads", "uploads of descriptors", ratio{1.3, 8}, func(t *Trace) []string { return count(len(t.asked("POST "))) }},
			dayFeature{"uploads-gaps", "seconds between uploads that are not at the same time", spread{6, 0.6}, numbersOf(func(t *Trace) []float64 {
				return slices.DeleteFunc(gaps(t.asked("POST ")), func(s float64) bool { return s < 60 })
			})},
			dayFeature{"fetches", "requests for descriptors", mean{Within: 0.5}, func(t *Trace) []string { return count(len(t.asked("GET /tor/hs/"))) }},
			dayFeature{"joins", "circuits with RENDEZVOUS1", mean{Within: 1.5}, func(t *Trace) []string { return count(len(t.saying("RENDEZVOUS1"))) }},
			dayFeature{"joins-life", "seconds until the service closes such a circuit", spread{6, 0.6}, numbersOf(func(t *Trace) []float64 { return t.lives(t.saying("RENDEZVOUS1")) })})
	}
	return out
}

func numbersOf(f func(*Trace) []float64) func(*Trace) []string {
	return func(t *Trace) []string {
		var out []string
		for _, x := range f(t) {
			out = append(out, one("%.3f", x)...)
		}
		return out
	}
}

// several are the circuits of two hops or more, whether or not they were built to their ends.
func (t *Trace) several() []TraceCircuit {
	return slices.DeleteFunc(slices.Clone(t.Circuits), func(c TraceCircuit) bool { return c.Asked < 2 })
}

func (t *Trace) single() []TraceCircuit {
	return slices.DeleteFunc(slices.Clone(t.Circuits), func(c TraceCircuit) bool { return c.Asked >= 2 })
}

// onSecond says of each circuit of several hops whether it begins in that fifth of a second in which most do.
func (t *Trace) onSecond() []string {
	const parts = 10
	part := func(c TraceCircuit) int { return int(math.Mod(c.Began, 1) * parts) }
	var n [parts]int
	for _, c := range t.several() {
		n[part(c)]++
	}
	most := 0
	for i := range n {
		if n[i]+n[(i+1)%parts] > n[most]+n[(most+1)%parts] {
			most = i
		}
	}
	var out []string
	for _, c := range t.several() {
		p := part(c)
		out = append(out, yes(p == most || p == (most+1)%parts))
	}
	return out
}

// start is when the client began: when it asked for something.
func (t *Trace) start() float64 {
	if len(t.Requests) == 0 {
		return math.Inf(1)
	}
	return t.Requests[0].At
}

// afterStart is how long after that the first of something was.
func (t *Trace) afterStart(at []float64) []string {
	if len(at) == 0 || len(t.Requests) == 0 {
		return nil
	}
	return one("%.2f", slices.Min(at)-t.start())
}

func began(cs []TraceCircuit) []float64 {
	var out []float64
	for _, c := range cs {
		out = append(out, c.Began)
	}
	return out
}

// saying are the circuits whose last hop got a message.
func (t *Trace) saying(what string) []TraceCircuit {
	return slices.DeleteFunc(slices.Clone(t.Circuits), func(c TraceCircuit) bool { return !slices.Contains(c.Said, what) })
}

func (t *Trace) lives(cs []TraceCircuit) []float64 {
	var out []float64
	for _, c := range cs {
		if c.Destroyed > 0 {
			out = append(out, c.Destroyed-c.Began)
		}
	}
	return out
}

func (t *Trace) linkLives() []float64 {
	var out []float64
	for _, l := range t.Links {
		if l.Ended > 0 {
			out = append(out, l.Ended-l.Opened)
		}
	}
	return out
}

func (t *Trace) linkQuiet() []float64 {
	var out []float64
	for _, l := range t.Links {
		if l.Ended > 0 && l.Last > 0 {
			out = append(out, l.Ended-l.Last)
		}
	}
	return out
}

func (t *Trace) paddingGaps() []float64 {
	var out []float64
	for _, l := range t.Links {
		out = append(out, gaps(l.Padding)...)
	}
	return out
}

// asked are the times of requests whose form has some text.
func (t *Trace) asked(form string) []float64 {
	var out []float64
	for _, q := range t.Requests {
		if strings.Contains(q.Form, form) {
			out = append(out, q.At)
		}
	}
	return out
}

func (t *Trace) microdescsAfter() []float64 {
	var out []float64
	all := t.asked("/consensus")
	for _, at := range t.asked("/micro/") {
		for _, c := range slices.Backward(all) {
			if c <= at {
				out = append(out, at-c)
				break
			}
		}
	}
	return out
}

// gaps are the differences of neighbours.
func gaps(at []float64) []float64 {
	var out []float64
	for i := 1; i < len(at); i++ {
		out = append(out, at[i]-at[i-1])
	}
	return out
}
