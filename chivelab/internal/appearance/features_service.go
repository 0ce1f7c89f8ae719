package appearance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// uploads returns the uploads of descriptors that began between two marks.
func (v *view) uploads(from, to string) []request {
	return slices.DeleteFunc(v.requests(), func(q request) bool {
		return !strings.HasPrefix(q.head, "POST ") || q.at.Before(v.at(from)) || !q.at.Before(v.at(to))
	})
}

// points returns the times of the ESTABLISH_INTRO messages between two marks, in their order.
func (v *view) points(from, to string) []time.Time {
	var out []time.Time
	for _, c := range v.circuits {
		for _, m := range c.messages(-1, cell.RelayEstablishIntro) {
			if !m.at.Before(v.at(from)) && m.at.Before(v.at(to)) {
				out = append(out, m.at)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

func seconds(d time.Duration) []string { return one("%.2f", d.Seconds()) }

// serviceFeatures are what relays see of a program that has an onion service.
func serviceFeatures() []feature {
	own := []feature{
		{name: "points", where: atOnion, what: "ESTABLISH_INTRO messages until the idle time is over", rule: mean{Within: 2}, see: func(v *view) []string { return count(len(v.points(markStart, markUse))) }},
		{name: "points-length", where: atOnion, what: "their length", rule: same{}, see: told(cell.RelayEstablishIntro, length)},
		{name: "points-hops", where: atOnion, what: "the length of their circuits", rule: same{}, see: told(cell.RelayEstablishIntro, hops)},
		{name: "points-spread", where: atOnion, what: "seconds from the first of them to the last before an upload", rule: mean{Within: 8}, see: func(v *view) []string {
			at, up := v.points(markStart, markUse), v.uploads(markStart, markUse)
			if len(up) == 0 {
				return nil
			}
			at = slices.DeleteFunc(at, func(t time.Time) bool { return t.After(up[0].at) })
			if len(at) == 0 {
				return nil
			}
			return seconds(at[len(at)-1].Sub(at[0]))
		}},
		{name: "points-again", where: atOnion, what: "ESTABLISH_INTRO messages in the 10 seconds after a restart", rule: mean{Within: 2}, see: func(v *view) []string { return count(len(v.points(markRestart, markEnd))) }},
		{name: "uploads", where: atOnion, what: "uploads of descriptors until the idle time is over", rule: mean{Within: 3}, see: func(v *view) []string { return count(len(v.uploads(markStart, markUse))) }},
		{name: "uploads-soon", where: atOnion, what: "whether the first upload begins within 0.7 seconds of the first ESTABLISH_INTRO", rule: share{N: 2, Within: 0.75}, see: func(v *view) []string {
			at, up := v.points(markStart, markUse), v.uploads(markStart, markUse)
			if len(up) == 0 || len(at) == 0 {
				return nil
			}
			return []string{yes(up[0].at.Sub(at[0]) < 700*time.Millisecond)}
		}},
		{name: "uploads-spread", where: atOnion, what: "seconds from the first upload to the last of the idle time", rule: mean{Within: 12}, see: func(v *view) []string {
			up := v.uploads(markStart, markUse)
			if len(up) == 0 {
				return nil
			}
			return seconds(up[len(up)-1].at.Sub(up[0].at))
		}},
		{name: "uploads-form", where: atOnion, what: "the form of an upload", rule: same{}, see: uploaded(form)},
		{name: "uploads-headers", where: atOnion, what: "its headers, with the descriptor's length in hundreds", rule: same{}, see: uploaded(sized)},
		{name: "uploads-hops", where: atOnion, what: "the length of its circuit", rule: same{}, see: uploaded(func(_ *view, q *request) string { return fmt.Sprintf("%d hops", len(q.circuit.hops)) })},
		{name: "uploads-each", where: atOnion, what: "uploads on one circuit", rule: same{}, see: func(v *view) []string {
			n := map[*circuit]int{}
			for _, q := range v.uploads(markStart, markEnd) {
				n[q.circuit]++
			}
			var out []string
			for _, k := range n {
				out = append(out, fmt.Sprint(k))
			}
			return out
		}},
		{name: "uploads-again", where: atOnion, what: "uploads in the 10 seconds after a restart", rule: mean{Within: 8}, see: func(v *view) []string { return count(len(v.uploads(markRestart, markEnd))) }},
		{name: "joins", where: atOnion, what: "RENDEZVOUS1 messages", rule: mean{Within: 0.6}, see: func(v *view) []string {
			n := 0
			for _, c := range v.circuits {
				n += len(c.messages(-1, cell.RelayRendezvous1))
			}
			return count(n)
		}},
		{name: "joins-length", where: atOnion, what: "their length", rule: same{}, see: told(cell.RelayRendezvous1, length)},
		{name: "joins-hops", where: atOnion, what: "the length of their circuits", rule: same{}, see: told(cell.RelayRendezvous1, hops)},
		{name: "second-hops", where: atGuard, what: "second hops of circuits of four hops or more, until it ends", rule: mean{Within: 2.5}, see: func(v *view) []string {
			at := map[int]bool{}
			for _, c := range v.between(markStart, markTerm) {
				if len(c.hops) >= 4 {
					at[c.hops[1].link.relay] = true
				}
			}
			return count(len(at))
		}},
	}
	for i := range own {
		own[i].name, own[i].what = "service-"+own[i].name, "an onion service: "+own[i].what
	}
	return append(own, again("service-", atGuard, "an onion service: ", slices.Concat(linkFeatures(), directoryFeatures(), circuitFeatures(), timeFeatures(), endFeatures()))...)
}

var contentLength = regexp.MustCompile(`(Content-Length: \d+)\d\d`)

// sized gives a request's headers with a length that differs by few bytes from one descriptor to the other.
func sized(v *view, q *request) string {
	return contentLength.ReplaceAllString(headers(v, q), "${1}00")
}

// uploaded gives a function of all uploads.
func uploaded(f func(*view, *request) string) func(*view) []string {
	return func(v *view) []string {
		var out []string
		for _, q := range v.uploads(markStart, markEnd) {
			out = append(out, f(v, &q))
		}
		return out
	}
}
