package control

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
)

// errFiltered is the answer to what an allow list does not have.
var errFiltered = ctlwire.Errorf(ctlwire.BadCommand, "Command filtered")

// owned is what a session with an allow list knows to be its own, beside its services.
type owned struct {
	circuits []string // numbers of circuits that have carried one
	fetched  []string // addresses whose descriptors it has asked for
}

// maxOwned bounds each list; the oldest goes first.
const maxOwned = 1024

func remember(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	if len(list) == maxOwned {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, s)
}

func forget(list []string, s string) []string {
	return slices.DeleteFunc(list, func(o string) bool { return o == s })
}

// rules returns the allow list of the session's port, as it is now.
func (one *session) rules() *Rules {
	if one.door.Rules == nil {
		return nil
	}
	return one.door.Rules()
}

// filtered answers a command that is not on the list. The log tells of the first.
func (one *session) filtered(c ctlwire.Command) error {
	if _, known := handlers[c.Name]; known && !one.refuse {
		one.refuse = true
		one.srv.cfg.Log.Info("the allow list of a control port does not have a command, with its arguments, that a controller sent", "command", c.Name)
	}
	return one.fail(errFiltered)
}

// told replaces the value of an option by what the list has instead.
func (one *session) told(name string, lines []Line) []Line {
	r := one.rules()
	if r == nil || len(lines) == 0 {
		return lines
	}
	if rule := r.find("GETCONF", name); rule != nil && rule.answer != nil {
		return []Line{{Key: lines[0].Key, Value: *rule.answer, HasValue: true}}
	}
	return lines
}

// noteFetch remembers whose descriptor was asked for. Whoever calls it has wmu, as all commands.
func (one *session) noteFetch(address string) { one.own.fetched = remember(one.own.fetched, address) }

// hasOnion reports whether a service is the session's own.
func (one *session) hasOnion(address string) bool {
	one.srv.onions.mu.Lock()
	defer one.srv.onions.mu.Unlock()
	return slices.Contains(one.onions, address)
}

// mayHave reports whether the session has fewer than most services; zero: there is no such bound.
func (one *session) mayHave(most int) bool {
	one.srv.onions.mu.Lock()
	defer one.srv.onions.mu.Unlock()
	return most == 0 || len(one.onions) < most
}

// ownStreams returns the session's streams and their circuits.
func (one *session) ownStreams(r *Rules) map[string]uint64 {
	return one.srv.cfg.Steering.StreamsBy(r.ports)
}

// ownLines leaves the session's own of a list of streams or circuits.
func (one *session) ownLines(r *Rules, key string, a Answer) Answer {
	own := map[string]bool{}
	for id, circuit := range one.ownStreams(r) {
		if key == "circuit-status" {
			id = strconv.FormatUint(circuit, 10)
		}
		own[id] = true
	}
	lines := a.Lines
	if lines == nil {
		lines = strings.SplitSeq(a.Text, "\n")
	}
	return Answer{Lines: func(yield func(string) bool) {
		for l := range lines {
			if id, _ := ctlwire.Cut(l); own[id] && !yield(l) {
				return
			}
		}
	}}
}

// shapeLocked returns what of an event the session may see.
func (one *session) shapeLocked(e event) []byte {
	r := one.rules()
	if r == nil {
		return e.text
	}
	rule := r.find("SETEVENTS", eventNames[e.name])
	if rule == nil || rule.silent {
		return nil
	}
	if !rule.own && !rule.hide {
		return e.text
	}
	line, _, _ := bytes.Cut(e.text, []byte("\r\n"))
	w := strings.Fields(string(line))
	if len(w) < 4 { // "650 NAME ...": all of these events have more
		return nil
	}
	switch w[1] {
	case "STREAM":
		if one.ownStreamLocked(r, w, e.port) {
			return e.text
		}
		return nil
	case "CIRC":
		return one.ownCircuitLocked(w)
	}
	return one.ownDescriptor(rule, w, e.text)
}

// ownStreamLocked reports whether an event is of one of the session's streams, which are those that came by its ports.
func (one *session) ownStreamLocked(r *Rules, w []string, port string) bool {
	if !slices.Contains(r.ports, port) {
		return false
	}
	if len(w) > 4 && w[4] != "0" {
		one.own.circuits = remember(one.own.circuits, w[4])
	}
	return true
}

// ownCircuitLocked tells of the end of a circuit that had one of the session's streams, and nothing else of it.
func (one *session) ownCircuitLocked(w []string) []byte {
	if w[3] != "CLOSED" && w[3] != "FAILED" || !slices.Contains(one.own.circuits, w[2]) {
		return nil
	}
	one.own.circuits = forget(one.own.circuits, w[2])
	return []byte("650 CIRC " + w[2] + " " + w[3] + "\r\n")
}

// ownDescriptor leaves the events of services that are the session's, or for which it has asked.
func (one *session) ownDescriptor(rule *rule, w []string, whole []byte) []byte {
	at := 3
	if w[0] != "650" { // "650+HS_DESC_CONTENT ADDRESS ..."
		at = 1
	}
	if rule.own && !one.hasOnion(w[at]) && !slices.Contains(one.own.fetched, w[at]) {
		return nil
	}
	if !rule.hide {
		return whole
	}
	w = slices.DeleteFunc(w, func(s string) bool { return strings.HasPrefix(s, "HSDIR_INDEX=") })
	for i := at + 2; i < min(at+4, len(w)); i++ { // the directory, and the descriptor's number
		if !strings.Contains(w[i], "=") {
			w[i] = "UNKNOWN"
		}
	}
	return []byte(strings.Join(w, " ") + "\r\n")
}
