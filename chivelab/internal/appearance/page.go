package appearance

import (
	"fmt"
	"strings"
)

// Versions are those of the programs that a table is about.
type Versions struct {
	Tor, OpenSSL, Chive string
}

// Page makes docs/appearance.md of a run.
func Page(rows []Row, allowed map[string]Known, v Versions, clients int) string {
	var b strings.Builder
	differ := 0
	for _, r := range rows {
		if r.Different {
			differ++
		}
	}
	fmt.Fprintf(&b, `# How Chive's client looks beside C tor's

Who uses Chive is as anonymous as the crowd of people who look the same. This table says what a wire, a guard and the
relays behind it see of both clients. `+"`chivelab appearance --write docs/appearance.md`"+` made it from a run: C tor %s with
OpenSSL %s beside Chive %s, %d clients of each, %d features, of which %d differ.

Each client does the same: it connects, rests, opens five connections to an exit, uploads and downloads, asks an onion service,
asks for new circuits, ends, starts again with its state, and ends. Half as many more of each program do the same by two bridges,
and half as many have an onion service, which C tor's client visits: their rows begin with bridge and service. Relays of the laboratory record the cells and the messages, and
a recorder of TCP before each of them the records of TLS. Every second relay has an IPv6 address, too. They look like C tor's relays: what Chive does for relays of Chive alone
is not here. C tor beside itself must show no difference, and C tor with another option must show some: the same test holds both.

The figures are of one run. The verdicts are held by a test, TestAppearance of `+"`chivelab/internal/appearance`"+`: a difference that
is not in its list, allowed.txt, fails, and so does one in the list that is gone. What it cannot show is in
[the threat model](threat-model.md#what-a-guard-and-a-wire-see).

`, v.Tor, v.OpenSSL, v.Chive, clients, len(rows), differ)
	fmt.Fprintf(&b, "| who sees it | feature | C tor | Chive | rule | verdict |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		verdict := "same"
		if r.Different {
			verdict = "differs"
			if why := allowed[r.Name].Why; why != "" {
				verdict += ": " + why
			}
		}
		fmt.Fprintf(&b, "| %s | `%s`: %s | %s | %s | %s | %s |\n", r.Where, r.Name, r.What, brief(r.First), brief(r.Second), r.Rule, verdict)
	}
	return b.String()
}

// brief makes a value fit a cell of the table.
func brief(s string) string {
	const most = 60
	s = strings.ReplaceAll(s, "|", "/")
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return s
}
