package appearance

import (
	"fmt"
	"time"
)

// proxyFeature is a row about clients of one bridge.
type proxyFeature struct {
	name, what string
	dead       bool
	rule       rule
	see        func(*proxied) []string
}

// burst is what a client sends without a pause of this length.
const burst = 20 * time.Millisecond

// bursts returns the bytes of each burst of a connection.
func bursts(k *conn) (out []int) {
	var last time.Time
	for _, r := range k.records {
		if len(out) == 0 || r.at.Sub(last) > burst {
			out = append(out, 0)
		}
		out[len(out)-1] += r.size
		last = r.at
	}
	return out
}

func (x *proxied) at(name string) time.Time { return (&view{marks: x.marks}).at(name) }

// opened returns the connections that begin between two marks.
func (x *proxied) opened(from, to string) []*conn {
	return (&view{marks: x.marks, conns: x.conns}).connsBetween(from, to)
}

// sent counts the bytes that the client sends between two times.
func (x *proxied) sent(from, to time.Time) (n int) {
	for _, k := range x.conns {
		for _, r := range k.records {
			if r.at.After(from) && r.at.Before(to) {
				n += r.size
			}
		}
	}
	return n
}

// proxyFeatures are what a wire shows of such clients.
func proxyFeatures() []proxyFeature {
	return []proxyFeature{
		{"obfs4-links", "connections until the idle time is over", false, mean{Within: 1}, func(x *proxied) []string { return count(len(x.opened(markStart, markUse))) }},
		{"obfs4-links-again", "connections in the 10 seconds after a restart", false, mean{Within: 1}, func(x *proxied) []string { return count(len(x.opened(markRestart, markEnd))) }},
		{"obfs4-bursts", "bytes of the second burst of a connection, in which the ClientHello is", false, spread{4, 0.85}, func(x *proxied) []string {
			var out []string
			for _, k := range x.conns {
				if b := bursts(k); len(b) > 1 {
					out = append(out, fmt.Sprint(b[1]))
				}
			}
			return out
		}},
		{"obfs4-start", "bytes that the client sends until it is connected", false, ratio{1.6, 6000}, func(x *proxied) []string { return count(x.sent(x.at(markStart), x.at(markUp))) }},
		{"obfs4-idle", "bytes that it sends in the idle time", false, ratio{1.6, 8000}, func(x *proxied) []string { return count(x.sent(x.at(markUp), x.at(markUse))) }},
		{"obfs4-close", "how connections usually end", false, usual{}, func(x *proxied) []string {
			var out []string
			for _, k := range x.conns {
				out = append(out, k.how)
			}
			return out
		}},
		{"dead-links", "connections to a dead bridge", true, ratio{1.5, 2}, func(x *proxied) []string { return count(len(x.conns)) }},
		{"dead-first", "connections in the first 10 seconds", true, mean{Within: 1.5}, func(x *proxied) []string {
			n := 0
			for _, k := range x.conns {
				if k.opened.Before(x.at(markStart).Add(10 * time.Second)) {
					n++
				}
			}
			return count(n)
		}},
		{"dead-gaps", "seconds from one to the next", true, spread{4, 0.6}, func(x *proxied) []string {
			var out []string
			for i := 1; i < len(x.conns); i++ {
				out = append(out, fmt.Sprintf("%.2f", x.conns[i].opened.Sub(x.conns[i-1].opened).Seconds()))
			}
			return out
		}},
	}
}

func compareProxied(seen []*proxied, first, second string) []Row {
	var rows []Row
	for _, f := range proxyFeatures() {
		values := func(subject string) (out [][]string) {
			for _, x := range seen {
				if x.subject == subject && x.dead == f.dead {
					out = append(out, f.see(x))
				}
			}
			return out
		}
		a, b := values(first), values(second)
		different, known := f.rule.differ(a, b)
		rows = append(rows, Row{f.name, onWire, f.what, f.rule.String(), f.rule.show(a), f.rule.show(b), different && known, !known})
	}
	return rows
}
