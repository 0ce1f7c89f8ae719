package tord

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
)

// onions answers chive/onions: the state of each onion service, those of the torrc first.
func (q *query) onions() (control.Answer, error) {
	var all []chive.OnionStatus
	if q.node != nil { // without a client, none of them runs
		all = q.node.OnionStatus()
		for _, l := range q.addedListeners() {
			all = append(all, l.Status())
		}
	}
	return streamed(func(yield func(string) bool) {
		for _, s := range all {
			if !yield(onionLine(&s)) {
				return
			}
		}
	})
}

// addedListeners returns the services of controllers that run, in the order of their addresses.
func (t *tor) addedListeners() (out []*chive.OnionListener) {
	t.changing.Lock()
	defer t.changing.Unlock()
	for _, address := range slices.Sorted(maps.Keys(t.added)) {
		if l := t.added[address].listener; l != nil {
			out = append(out, l)
		}
	}
	return out
}

func onionLine(s *chive.OnionStatus) string {
	l := fmt.Sprintf("%s PUBLISHED=%s POINTS=%d MISSING=%d CLIENTS=%d CIRCUITS=%d STREAMS=%d", strings.TrimSuffix(s.Address, ".onion"),
		yes(s.Published), len(s.IntroductionPoints), s.Missing, s.AuthorizedClients, s.Circuits, s.Streams)
	if !s.Uploaded.IsZero() {
		l += ` UPLOADED="` + date(s.Uploaded) + `"`
	}
	return l
}

func yes(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// postQuantum answers chive/post-quantum: of how many open circuits each hop is protected, some are, or none is.
func (q *query) postQuantum() (control.Answer, error) {
	var circuits []client.CircuitReport
	if c := q.inner(); c != nil {
		circuits = c.Circuits()
	}
	return text(quantumLine(circuits))
}

func quantumLine(circuits []client.CircuitReport) string {
	var all, some, none int
	for _, r := range circuits {
		if r.Step != client.CircuitBuilt || len(r.Hops) == 0 {
			continue
		}
		n := 0
		for _, h := range r.Hops {
			if !h.IsZero() {
				n++
			}
		}
		switch n {
		case len(r.Hops):
			all++
		case 0:
			none++
		default:
			some++
		}
	}
	return fmt.Sprintf("ALL=%d SOME=%d NONE=%d", all, some, none)
}
