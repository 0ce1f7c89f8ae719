package appearance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// linkFeatures are what a guard sees of a client's links.
func linkFeatures() []feature {
	return []feature{
		{"links-start", atGuard, "links until the idle time is over", mean{Within: 3}, func(v *view) []string { return count(len(v.connsBetween(markStart, markUse))) }},
		{"links-again", atGuard, "links in the 10 seconds after a restart", mean{Within: 1.4}, func(v *view) []string { return count(len(v.connsBetween(markRestart, markEnd))) }},
		{"padding-negotiate", atGuard, "what the client asks of link padding", same{}, func(v *view) []string {
			var out []string
			for _, e := range v.cells(cell.CmdPaddingNegotiate, false, v.at(markStart), v.at(markEnd)) {
				out = append(out, fmt.Sprintf("%x", e.body[:6]))
			}
			return orNothing(out)
		}},
		{"padding-sends", atGuard, "whether the client pads its links", share{N: 3, Within: 0.6}, func(v *view) []string {
			return []string{yes(len(v.cells(cell.CmdPadding, false, v.at(markStart), v.at(markTerm))) > 0)}
		}},
		{"padding-cells", atGuard, "padding cells of the client in the idle time", mean{Within: 9}, func(v *view) []string {
			return count(len(v.cells(cell.CmdPadding, false, v.at(markUp), v.at(markUse))))
		}},
		{"padding-side", atGuard, "which padding is the client's, of that on its links in the idle time", share{N: 20, Within: 0.5}, func(v *view) []string {
			var out []string
			for _, own := range []bool{true, false} {
				for range v.cells(cell.CmdPadding, !own, v.at(markUp), v.at(markUse)) {
					out = append(out, yes(own))
				}
			}
			return out
		}},
		{"link-first", atGuard, "the first cell on a link", same{}, func(v *view) []string {
			var out []string
			for _, k := range v.conns {
				if k.link != nil && len(k.link.cells) > 0 {
					out = append(out, k.link.cells[0].cmd.String())
				}
			}
			return out
		}},
		{"link-first-again", atGuard, "the first cell on a link after a restart", same{}, func(v *view) []string {
			var out []string
			for _, k := range v.connsBetween(markRestart, markEnd) {
				if k.link != nil && len(k.link.cells) > 0 {
					out = append(out, k.link.cells[0].cmd.String())
				}
			}
			return out
		}},
		{"padding-directory", atGuard, "whether links that carry the directory alone are padded", same{}, func(v *view) []string {
			var out []string
			for _, k := range v.conns {
				if k.link == nil || !v.directoryOnly(k.link) {
					continue
				}
				out = append(out, yes(slices.ContainsFunc(k.link.cells, func(e seen) bool { return e.cmd == cell.CmdPadding && !e.out })))
			}
			return out
		}},
		{"cells", atGuard, "the link's cells that the client sends", same{}, func(v *view) []string {
			var out []string
			for _, k := range v.conns {
				if k.link == nil {
					continue
				}
				for _, e := range k.link.cells {
					if !e.out {
						out = append(out, e.cmd.String())
					}
				}
			}
			return set([][]string{out})
		}},
	}
}

// directoryOnly reports whether a link has only circuits for the directory.
func (v *view) directoryOnly(l *link) bool {
	some := false
	for _, c := range v.circuits {
		if c.link == l {
			some = true
			if !c.directory() {
				return false
			}
		}
	}
	return some
}

// What a path names: its digests, in hexadecimal or in base64.
var (
	hexadecimal = regexp.MustCompile(`[0-9A-Fa-f]{20,}`)
	severalHex  = regexp.MustCompile(`HEX([+-]HEX)+`)
	sixHex      = regexp.MustCompile(`\b[0-9A-F]{6}\b`) // of a consensus's signers
)

// document makes the form of a path: without its digests, and with ".z" if that is its end.
func document(path string) string {
	end := ""
	if strings.HasSuffix(path, ".z") {
		path, end = strings.TrimSuffix(path, ".z"), ".z"
	}
	for _, start := range []string{"/tor/micro/d/", "/tor/hs/3/"} {
		if strings.HasPrefix(path, start) {
			return start + "DIGEST" + end
		}
	}
	path = sixHex.ReplaceAllString(hexadecimal.ReplaceAllString(path, "HEX"), "SIX")
	return severalHex.ReplaceAllStringFunc(path, func(s string) string { return "HEX" + s[3:4] + "..." }) + end
}

// requestLine and headers of a request.
func (q *request) lines() (form string, headers []string) {
	lines := strings.Split(q.head, "\r\n")
	f := strings.Fields(lines[0])
	if len(f) != 3 {
		return "malformed", nil
	}
	return f[0] + " " + document(f[1]) + " " + f[2], lines[1:]
}

// asks gives a function of the requests for the directory, or of those to an onion service's.
func asks(onions bool, f func(v *view, q *request) string) func(*view) []string {
	return func(v *view) []string {
		var out []string
		for _, q := range v.requests() {
			if onions == !q.circuit.directory() {
				out = append(out, f(v, &q))
			}
		}
		return out
	}
}

// asked counts the requests for documents of one kind.
func asked(path string) func(*view) []string {
	return func(v *view) []string {
		n := 0
		for _, q := range v.requests() {
			if strings.Contains(form(v, &q), path) {
				n++
			}
		}
		return count(n)
	}
}

func form(_ *view, q *request) string { f, _ := q.lines(); return f }

// datedHeader is one whose value is a date.
var datedHeader = regexp.MustCompile(`(?i)^(if-modified-since|date): .*`)

func headers(_ *view, q *request) string {
	_, h := q.lines()
	for i := range h {
		h[i] = datedHeader.ReplaceAllString(hexadecimal.ReplaceAllString(h[i], "HEX"), "$1: DATE")
		if name, value, ok := strings.Cut(h[i], ": "); ok && strings.EqualFold(name, "host") {
			h[i] = name + ": " + regexp.MustCompile(`[0-9.:]+`).ReplaceAllString(value, "ADDRESS")
		}
	}
	return strings.Join(h, " | ")
}

// directoryFeatures are what a directory cache sees, which is a guard mostly.
func directoryFeatures() []feature {
	return []feature{
		{"directory-requests", atGuard, "the forms of requests for the directory", same{}, asks(false, form)},
		{"directory-headers", atGuard, "the headers of such requests", same{}, asks(false, headers)},
		{"directory-again", atGuard, "requests for the directory after a restart", mean{Within: 0.5}, func(v *view) []string {
			n := 0
			for _, q := range v.requests() {
				if q.at.After(v.at(markRestart)) && q.circuit.directory() {
					n++
				}
			}
			return count(n)
		}},
		{"directory-circuits", atGuard, "the cell that opens a circuit for the directory", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				if c.directory() {
					out = append(out, c.create.String())
				}
			}
			return out
		}},
		{"directory-destroy", atGuard, "whether the client destroys such circuits", share{N: 2, Within: 0.5}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				if c.directory() && c.began.Before(v.at(markUse)) {
					out = append(out, yes(!c.destroyed.IsZero() && c.destroyed.Before(v.at(markNewnym))))
				}
			}
			return out
		}},
		{"directory-unused", atGuard, "circuits of one hop, at the start, that carry no request", mean{Within: 1.5}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markStart, markUp) {
				if c.create == cell.CmdCreateFast && !c.has(cell.RelayBeginDir) {
					n++
				}
			}
			return count(n)
		}},
		{"directory-keys", atGuard, "requests for authorities' certificates", mean{Within: 1}, asked("/tor/keys/")},
		{"directory-consensus", atGuard, "requests for a consensus", mean{Within: 1.5}, asked("/tor/status-vote/")},
		{"directory-microdescs", atGuard, "requests for microdescriptors", mean{Within: 1}, asked("/tor/micro/")},
	}
}

// skins gives the types and lengths of the onionskins for the n-th hop, from 0.
func skins(n int) func(*view) []string {
	return func(v *view) []string {
		var out []string
		for _, c := range v.circuits {
			if n == 0 {
				if kind, length, ok := c.skinOf(); ok {
					out = append(out, fmt.Sprintf("type %d, %d bytes", kind, length))
				} else if c.create != cell.CmdCreateFast {
					out = append(out, c.create.String())
				}
			} else if len(c.extends) >= n {
				x := c.extends[n-1]
				out = append(out, fmt.Sprintf("type %d, %d bytes", x.Type, len(x.Data)))
			}
		}
		return out
	}
}

// specifiers gives the types of an EXTEND2's link specifiers.
func specifiers(x *cell.Extend2) string {
	b := x.Specs
	if len(b) == 0 {
		return "none"
	}
	var out []string
	for b = b[1:]; len(b) >= 2 && len(b) >= 2+int(b[1]); b = b[2+int(b[1]):] {
		out = append(out, fmt.Sprint(b[0]))
	}
	return strings.Join(out, " ")
}

// circuitFeatures are what a guard and a middle see of how circuits are made.
func circuitFeatures() []feature {
	return []feature{
		{"skin-guard", atGuard, "onionskins for the guard", same{}, skins(0)},
		{"skin-middle", atGuard, "onionskins for the second hop", same{}, skins(1)},
		{"skin-third", "middle", "onionskins for the third hop", same{}, skins(2)},
		{"specifiers", atGuard, "the link specifiers of EXTEND2, by type", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				for _, x := range c.extends {
					out = append(out, specifiers(x))
				}
			}
			return out
		}},
		{"early", atGuard, "RELAY_EARLY cells of a circuit with 20 cells from the client or more: C tor draws 7 or 8", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				switch {
				case len(c.hops) == 1 || c.early+c.later < 20:
				case c.early == 7 || c.early == 8:
					out = append(out, "7 or 8")
				default:
					out = append(out, count(c.early)...)
				}
			}
			return out
		}},
		{"circuit-padding", atGuard, "what a circuit's padding machines ask of the second hop", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				for n := range c.hops {
					for _, m := range c.messages(n, cell.RelayPaddingNegotiate) {
						out = append(out, fmt.Sprintf("hop %d: %x", n+1, m.data[:min(3, len(m.data))]))
					}
				}
			}
			return orNothing(out)
		}},
		{"conflux-link", atExit, "how a conflux set is asked for: version and wish", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				for _, m := range c.messages(-1, cell.RelayConfluxLink) {
					if len(m.data) > 0 {
						out = append(out, fmt.Sprintf("version %d, %d bytes, wish %d", m.data[0], len(m.data), m.data[len(m.data)-1]))
					}
				}
			}
			return out
		}},
		{"circuit-ids", atGuard, "the highest bit of circuit IDs", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				out = append(out, fmt.Sprint(c.id>>31))
			}
			return out
		}},
		{"guards", atGuard, "how many relays have circuits of three hops or more", mean{Within: 0.5}, func(v *view) []string {
			at := map[int]bool{}
			for _, c := range v.circuits {
				if len(c.hops) > 1 {
					at[c.link.relay] = true
				}
			}
			return count(len(at))
		}},
	}
}

// legs returns the times between the CREATE2 cells of the two legs of each conflux set.
func (v *view) legs(from, to string) []time.Duration {
	first := map[string]time.Time{}
	var out []time.Duration
	for _, c := range v.between(from, to) {
		for _, m := range c.messages(-1, cell.RelayConfluxLink) {
			if len(m.data) < 33 {
				continue
			}
			nonce := string(m.data[1:33])
			if at, again := first[nonce]; again {
				out = append(out, c.began.Sub(at))
			} else {
				first[nonce] = c.began
			}
		}
	}
	return out
}

// internal reports whether a circuit has several hops, and the last one got nothing.
func (c *circuit) internal() bool {
	return len(c.hops) >= 3 && !c.has(cell.RelayConfluxLink) && !c.has(cell.RelayBegin) && !c.has(cell.RelayBeginDir) &&
		!c.has(cell.RelayEstablishRendezvous) && !c.has(cell.RelayIntroduce1)
}

// multi returns the circuits with several hops.
func multi(cs []*circuit) []*circuit {
	var out []*circuit
	for _, c := range cs {
		if len(c.extends) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// timeFeatures are when circuits begin and end.
func timeFeatures() []feature {
	return []feature{
		{"legs-apart", atGuard, "whether the legs of a conflux set begin within 5 ms", share{N: 4, Within: 0.5}, func(v *view) []string {
			var out []string
			for _, d := range v.legs(markStart, markTerm) {
				out = append(out, yes(d < 5*time.Millisecond))
			}
			return out
		}},
		{"first-circuit", atGuard, "whether the first circuit begins within 100 ms of the directory's last cell", share{N: 3, Within: 0.7}, func(v *view) []string {
			cs := multi(v.between(markStart, markUse))
			if len(cs) == 0 {
				return nil
			}
			var last time.Time
			for _, c := range v.circuits {
				if !c.directory() {
					continue
				}
				for _, e := range c.link.cells {
					if e.out && e.circ == c.id && e.at.After(last) && e.at.Before(cs[0].began) {
						last = e.at
					}
				}
			}
			return []string{yes(cs[0].began.Sub(last) < 100*time.Millisecond)}
		}},
		{"sets-idle", atExit, "legs of conflux sets in the idle time", mean{Within: 3}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markStart, markUse) {
				n += len(c.messages(-1, cell.RelayConfluxLink))
			}
			return count(n)
		}},
		{"circuits-idle", atGuard, "circuits of several hops until the idle time is over", mean{Within: 5}, func(v *view) []string {
			return count(len(multi(v.between(markStart, markUse))))
		}},
		{"circuits-internal", atGuard, "circuits that are not for exits, until then", mean{Within: 2.5}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markStart, markUse) {
				if c.internal() {
					n++
				}
			}
			return count(n)
		}},
		{"circuits-gaps", atGuard, "whether pauses of 8 to 14 seconds between circuits are above 10.6", share{N: 4, Within: 0.5}, func(v *view) []string {
			var out []string
			cs := multi(v.between(markStart, markUse))
			for i := 1; i < len(cs); i++ {
				if d := cs[i].began.Sub(cs[i-1].began); d >= 8*time.Second && d < 14*time.Second {
					out = append(out, yes(d > 10600*time.Millisecond))
				}
			}
			return out
		}},
		{"circuits-alone", atGuard, "whether a circuit begins with no other within 50 ms, after the first 12 seconds", share{N: 2, Within: 0.5}, func(v *view) []string {
			var out []string
			cs := multi(v.between(markStart, markUse))
			for i, c := range cs {
				if c.began.Before(v.at(markUp).Add(12 * time.Second)) {
					continue
				}
				near := i > 0 && c.began.Sub(cs[i-1].began) < 50*time.Millisecond || i+1 < len(cs) && cs[i+1].began.Sub(c.began) < 50*time.Millisecond
				out = append(out, yes(!near))
			}
			return out
		}},
		{"destroy-idle", atGuard, "circuits destroyed in the idle time", mean{Within: 4}, func(v *view) []string {
			return count(len(multi(v.destroys(v.at(markUp), v.at(markUse)))))
		}},
	}
}

// endFeatures are what follows from NEWNYM and SIGTERM.
func endFeatures() []feature {
	return []feature{
		{"newnym-destroys", atGuard, "circuits destroyed in the first second after NEWNYM", mean{Within: 2.5}, func(v *view) []string {
			return count(len(v.destroys(v.at(markNewnym), v.at(markNewnym).Add(time.Second))))
		}},
		{"newnym-builds", atGuard, "circuits begun in the first second after it", mean{Within: 1.5}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markNewnym, markAfter) {
				if c.began.Before(v.at(markNewnym).Add(time.Second)) {
					n++
				}
			}
			return count(n)
		}},
		{"newnym-later", atGuard, "circuits begun in the 7 seconds after that", mean{Within: 4}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markNewnym, markAfter) {
				if !c.began.Before(v.at(markNewnym).Add(time.Second)) {
					n++
				}
			}
			return count(n)
		}},
		{"onion-destroys", atGuard, "circuits destroyed from the time at which the onion service is asked until NEWNYM", mean{Within: 1.5}, func(v *view) []string {
			return count(len(multi(v.destroys(v.at(markOnion), v.at(markNewnym)))))
		}},
		{"term-destroys", atGuard, "whether the client destroys circuits at SIGTERM", same{}, func(v *view) []string {
			return []string{yes(len(v.destroys(v.at(markTerm), v.at(markRestart))) > 0)}
		}},
		{"destroy-reasons", atGuard, "the reasons of DESTROY", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				if !c.destroyed.IsZero() {
					out = append(out, count(int(c.reason))...)
				}
			}
			return out
		}},
		{"again-circuits", atGuard, "circuits of several hops in the 10 seconds after a restart", mean{Within: 4}, func(v *view) []string {
			return count(len(multi(v.between(markRestart, markEnd))))
		}},
	}
}
