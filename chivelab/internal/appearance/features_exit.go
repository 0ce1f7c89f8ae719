package appearance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// told gives a function of all messages of one command that last hops got.
func told(cmd cell.RelayCommand, f func(c *circuit, m *message) string) func(*view) []string {
	return func(v *view) []string {
		var out []string
		for _, c := range v.circuits {
			for _, m := range c.messages(-1, cmd) {
				out = append(out, f(c, &m))
			}
		}
		return out
	}
}

func length(_ *circuit, m *message) string { return fmt.Sprint(len(m.data)) }

func hops(c *circuit, _ *message) string { return fmt.Sprintf("%d hops", len(c.hops)) }

// exitFeatures are what an exit sees of streams.
func exitFeatures() []feature {
	return []feature{
		{"begin-flags", atExit, "what follows the address in BEGIN, by whether the exit lets streams out over IPv6", each{}, told(cell.RelayBegin, func(c *circuit, m *message) string {
			_, flags, _ := bytes.Cut(m.data, []byte{0})
			exit := c.hops[len(c.hops)-1].link.relay
			return fmt.Sprintf("%s: %x", yes(recording.six && exit >= recording.relays && exit%2 == 0), flags)
		})},
		{"begin-hops", atExit, "the length of circuits with streams", same{}, told(cell.RelayBegin, hops)},
		{"begin-sets", atExit, "whether streams go by conflux sets", share{N: 4, Within: 0.6}, func(v *view) []string {
			var out []string
			for _, c := range v.between(markStart, markNewnym) {
				for range c.messages(-1, cell.RelayBegin) {
					if len(c.hops) == 3 {
						out = append(out, yes(c.has(cell.RelayConfluxLink)))
					}
				}
			}
			return out
		}},
		{"begin-circuits", atExit, "circuits with streams, before the onion service is asked", mean{Within: 2.5}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markStart, markOnion) {
				if c.has(cell.RelayBegin) {
					n++
				}
			}
			return count(n)
		}},
		{"begin-name", atExit, "the form of BEGIN's address", same{}, told(cell.RelayBegin, func(_ *circuit, m *message) string {
			name, _, _ := bytes.Cut(m.data, []byte{0})
			host, _, _ := bytes.Cut(name, []byte(":"))
			return string(host)
		})},
		{"resolve", atExit, "the body of RESOLVE", same{}, told(cell.RelayResolve, func(_ *circuit, m *message) string { return fmt.Sprintf("%q", m.data) })},
		{"stream-ids", atExit, "whether a circuit's stream IDs follow each other", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				all := c.messages(-1, cell.RelayBegin)
				for i := 1; i < len(all); i++ {
					out = append(out, yes(all[i].stream == all[i-1].stream+1))
				}
			}
			return out
		}},
		{"begin-dir", atGuard, "the length of BEGIN_DIR", same{}, told(cell.RelayBeginDir, length)},
		{"data-first", atExit, "the length of a stream's first DATA", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.between(markStart, markTerm) {
				for _, b := range c.messages(-1, cell.RelayBegin) {
					for _, m := range c.messages(-1, cell.RelayData) {
						if m.stream == b.stream && m.at.After(b.at) {
							out = append(out, length(c, &m))
							break
						}
					}
				}
			}
			return out
		}},
		{"data-pings", atExit, "the lengths of DATA that carry 300 and then 517 bytes", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				for _, b := range c.messages(-1, cell.RelayBegin) {
					var lengths []int
					for _, m := range c.messages(-1, cell.RelayData) {
						if m.stream == b.stream && m.at.After(b.at) {
							lengths = append(lengths, len(m.data))
						}
					}
					if len(lengths) > 0 && len(lengths) < 6 && lengths[0] == 300 {
						out = append(out, fmt.Sprint(lengths))
					}
				}
			}
			return out
		}},
		{"end-after", atExit, "whether END comes within half a second of the program's end", share{N: 4, Within: 0.5}, func(v *view) []string {
			var out []string
			for _, m := range v.marks {
				if m.name != markClosed {
					continue
				}
				var first time.Time
				for _, c := range v.circuits {
					for _, e := range c.messages(-1, cell.RelayEnd) {
						if !e.at.Before(m.at) && (first.IsZero() || e.at.Before(first)) {
							first = e.at
						}
					}
				}
				out = append(out, yes(!first.IsZero() && first.Sub(m.at) < 500*time.Millisecond))
			}
			return out
		}},
		{"end-reason", atExit, "the bodies of END", same{}, told(cell.RelayEnd, func(_ *circuit, m *message) string { return fmt.Sprintf("%x", m.data) })},
		{"sendme", atExit, "version and length of SENDME", same{}, told(cell.RelaySendme, func(_ *circuit, m *message) string {
			if len(m.data) == 0 {
				return "empty"
			}
			return fmt.Sprintf("version %d, %d bytes", m.data[0], len(m.data))
		})},
		{"messages", atExit, "the relay messages that last hops get", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				if !c.whole() {
					continue
				}
				at := c.hops[len(c.hops)-1]
				for _, m := range at.link.heard {
					// XON and XOFF, and what balances the legs of a set, hang on how fast all is.
					switch m.cmd {
					case cell.RelayXon, cell.RelayXoff, cell.RelayConfluxSwitch:
						continue
					}
					if m.circ == at.circ {
						out = append(out, m.cmd.String())
					}
				}
			}
			return set([][]string{out})
		}},
	}
}

// onionFeatures are what the relays of an onion service see of its client.
func onionFeatures() []feature {
	return []feature{
		{"introduce-length", atOnion, "the length of INTRODUCE1", same{}, told(cell.RelayIntroduce1, length)},
		{"introduce-hops", atOnion, "the length of its circuit", same{}, told(cell.RelayIntroduce1, hops)},
		{"rendezvous-points", atOnion, "rendezvous points of one connection", mean{Within: 0.4}, func(v *view) []string {
			n := 0
			for _, c := range v.between(markStart, markNewnym) {
				n += len(c.messages(-1, cell.RelayEstablishRendezvous))
			}
			return count(n)
		}},
		{"rendezvous-hops", atOnion, "the length of the circuit to one", same{}, told(cell.RelayEstablishRendezvous, hops)},
		{"hsdir-requests", atOnion, "the forms of requests for a descriptor", same{}, asks(true, form)},
		{"hsdir-headers", atOnion, "the headers of such requests", same{}, asks(true, headers)},
		{"hsdir-count", atOnion, "requests for descriptors", mean{Within: 0.7}, func(v *view) []string {
			n := 0
			for _, q := range v.requests() {
				if !q.circuit.directory() {
					n++
				}
			}
			return count(n)
		}},
		{"introduce-count", atOnion, "introductions", mean{Within: 0.4}, func(v *view) []string {
			n := 0
			for _, c := range v.circuits {
				n += len(c.messages(-1, cell.RelayIntroduce1))
			}
			return count(n)
		}},
		{"hsdir-hops", atOnion, "the length of their circuits", same{}, asks(true, func(_ *view, q *request) string { return fmt.Sprintf("%d hops", len(q.circuit.hops)) })},
	}
}
