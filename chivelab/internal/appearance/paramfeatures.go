package appearance

import (
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// settle is how long a client may take to obey: what it has drawn by the old parameters ends first.
const settle = 2 * time.Second

// paramFeatures are what a guard and an exit see of clients when the consensus's parameters change.
func paramFeatures() []feature {
	return []feature{
		{"params-unused", atGuard, "nf_pad_before_usage 0: whether it pads links that no stream has used", share{N: 2, Within: 0.7}, func(v *view) []string {
			return []string{yes(v.paddedSince(markHas+"first", markRest+"first") > 0)}
		}},
		{"params-used", atGuard, "nf_pad_before_usage 0: whether it pads after streams", share{N: 2, Within: 0.7}, func(v *view) []string {
			return []string{yes(v.paddedSince(markUsed+"first", markOver+"first") > 0)}
		}},
		{"params-sets-ahead", atExit, "cfx_max_prebuilt_set 1: legs of conflux sets begun then", mean{Within: 1.5}, func(v *view) []string {
			return count(v.legsBetween(markHas+"first", markOver+"first"))
		}},
		{"params-padding", atGuard, "nf_ito_low 1000, nf_ito_high 1500: padding cells of the client for each link and 10 seconds", mean{Within: 2.5}, func(v *view) []string {
			n, links := v.paddedSince(markHas+"second", markRest+"second"), 0
			for _, k := range v.conns {
				if k.link != nil && !v.directoryOnly(k.link) && k.opened.Before(v.at(markHas+"second")) && (k.ended.IsZero() || k.ended.After(v.at(markRest+"second"))) {
					links++
				}
			}
			return one("%.1f", float64(n)/float64(max(1, links))*10/(paramRest-settle).Seconds())
		}},
		{"params-sets", atExit, "cfx_enabled 0: legs of conflux sets begun then", mean{Within: 0.5}, func(v *view) []string {
			return count(v.legsBetween(markHas+"second", markOver+"second"))
		}},
		{"params-streams", atExit, "cfx_enabled 0: whether streams still go by sets that are there", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.circuits {
				for _, m := range c.messages(-1, cell.RelayBegin) {
					if m.at.After(v.at(markRest+"second")) && len(c.hops) == 3 && m.at.Before(v.at(markUsed+"second")) {
						out = append(out, yes(c.has(cell.RelayConfluxLink)))
					}
				}
			}
			return out
		}},
		{"params-circuit-padding", atGuard, "circpad_padding_disabled 1: what padding machines ask of the second hop in new circuits", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.between(markHas+"second", markOver+"second") {
				for n := range c.hops {
					for _, m := range c.messages(n, cell.RelayPaddingNegotiate) {
						out = append(out, fmt.Sprintf("hop %d: %x", n+1, m.data[:min(3, len(m.data))]))
					}
				}
			}
			return orNothing(out)
		}},
		{"params-guards", atGuard, "guard-n-primary-guards-to-use 3: guards of new circuits", mean{Within: 1}, func(v *view) []string {
			at := map[int]bool{}
			for _, c := range multi(v.between(markHas+"second", markOver+"second")) {
				at[c.link.relay] = true
			}
			return count(len(at))
		}},
		{"params-specifiers", atGuard, "ExtendByEd25519ID 0: the link specifiers of EXTEND2 in new circuits, by type", same{}, func(v *view) []string {
			var out []string
			for _, c := range v.between(markHas+"second", markOver+"second") {
				for _, x := range c.extends {
					out = append(out, specifiers(x))
				}
			}
			return out
		}},
		{"params-destroys", atGuard, "circuits destroyed in the first two seconds after each change", mean{Within: 1.5}, func(v *view) []string {
			n := 0
			for _, s := range paramSteps {
				at := v.at(markHas + s.name)
				n += len(multi(v.destroys(at.Add(-time.Second), at.Add(settle))))
			}
			return count(n)
		}},
		{"params-links", atGuard, "links begun after the first change", mean{Within: 2.5}, func(v *view) []string { return count(len(v.connsBetween(markHas+"first", markTerm))) }},
		{"params-messages", atExit, "the relay messages that last hops get after the first change", same{}, func(v *view) []string {
			seen := map[cell.RelayCommand]bool{}
			var out []string
			for _, c := range v.circuits {
				if len(c.hops) == 0 {
					continue
				}
				at := c.hops[len(c.hops)-1]
				for _, m := range at.link.heard {
					if m.circ == at.circ && m.at.After(v.at(markHas+"first")) && !seen[m.cmd] && m.cmd != cell.RelaySendme && m.cmd != cell.RelayExtend2 { // those may end with the run
						seen[m.cmd] = true
						out = append(out, m.cmd.String())
					}
				}
			}
			return out
		}},
	}
}

// paddedSince counts the client's padding cells from a while after a mark until another.
func (v *view) paddedSince(from, to string) int {
	return len(v.cells(cell.CmdPadding, false, v.at(from).Add(settle), v.at(to)))
}

// legsBetween counts the circuits begun between two marks that are legs of conflux sets.
func (v *view) legsBetween(from, to string) int {
	n := 0
	for _, c := range v.between(from, to) {
		n += len(c.messages(-1, cell.RelayConfluxLink))
	}
	return n
}
