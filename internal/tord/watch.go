package tord

import (
	"fmt"
	"iter"
	"strings"
	"syscall"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/netdir"
)

const errRefused = syscall.ECONNREFUSED

// watcher makes events of what a client does.
func (t *tor) watcher(c *client.Client) *client.Watcher {
	return &client.Watcher{
		Circuit: func(r client.CircuitReport) { t.circuitStep(c, r) },
		Stream:  func(r client.StreamReport) { t.streamStep(c, r) },
		Link: func(r channel.LinkReport) {
			t.made("ORCONN", func() string { return linkLine(&r, c.NameOf(r.Relay)) })
		},
		Directory: t.directory,
		BuildTime: func(s cbt.Status, anew bool) {
			t.made("BUILDTIMEOUT_SET", func() string { return buildTimeLine(s, anew) })
		},
	}
}

// made sends an event if somebody wants it.
func (t *tor) made(name string, text func() string) {
	if t.server.Wanted(name) {
		t.tell(name, text())
	}
}

func (t *tor) streamStep(c *client.Client, r client.StreamReport) {
	t.meters.streamStep(t, c, &r)
	if !t.server.Wanted("STREAM") {
		return
	}
	if err := t.server.EventAt("STREAM", streamLine(&r), r.From.Port); err != nil {
		t.log.Warn("an event was not sent", "event", "STREAM", "err", err)
	}
}

func (t *tor) circuitStep(c *client.Client, r client.CircuitReport) {
	if r.Step == client.CircuitClosed {
		t.meters.circuitOver(t, c, &r)
	}
	name := "CIRC"
	if r.Step == client.CircuitRepurposed {
		name = "CIRC_MINOR"
	}
	t.made(name, func() string { return circuitLine(&r) })
}

// buildTimeLine returns the text of a BUILDTIMEOUT_SET event, without the curve's parameters.
func buildTimeLine(s cbt.Status, anew bool) string {
	kind := "COMPUTED"
	if anew {
		kind = "RESET"
	}
	return fmt.Sprintf("%s TOTAL_TIMES=%d TIMEOUT_MS=%d CLOSE_MS=%d", kind, s.Observations, s.Usage.Milliseconds(), s.Close.Milliseconds())
}

// directory tells of a new consensus, and which relays it has otherwise.
func (t *tor) directory(now, before *netdir.Directory) {
	if t.server.Wanted("NEWCONSENSUS") {
		t.sendData("NEWCONSENSUS", statuses(now.All()))
	}
	if t.server.Wanted("NS") {
		if changed := statuses(changedRelays(now, before)); !none(changed) {
			t.sendData("NS", changed)
		}
	}
}

func none(lines iter.Seq[string]) bool {
	for range lines {
		return false
	}
	return true
}

func (t *tor) sendData(name string, lines iter.Seq[string]) {
	if err := t.server.EventSeq(name, "", lines); err != nil {
		t.log.Warn("an event was not sent", "event", name, "err", err)
	}
}

// changedRelays yields the relays whose entry is new or another one.
func changedRelays(now, before *netdir.Directory) iter.Seq[netdir.Relay] {
	return func(yield func(netdir.Relay) bool) {
		for r := range now.All() {
			if before != nil {
				if old, ok := before.Lookup(r.RSA()); ok && sameStatus(r, old) {
					continue
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}

func sameStatus(a, b netdir.Relay) bool {
	six, _ := a.IPv6()
	six2, _ := b.IPv6()
	return a.Nickname() == b.Nickname() && a.Flags() == b.Flags() && a.MicrodescDigest() == b.MicrodescDigest() && a.IPv4() == b.IPv4() &&
		a.DirPort() == b.DirPort() && six == six2
}

// liveness tells when the network comes and goes.
type liveness struct{ last string }

// change returns the event's text, or "" if nothing has changed. The first look tells nothing: GETINFO network-liveness
// has it.
func (l *liveness) change(now string) string {
	was := l.last
	l.last = now
	if was == "" || was == now {
		return ""
	}
	return strings.ToUpper(now)
}

// guardNews is what was told of a client's guards.
type guardNews struct {
	of     *client.Client
	guards map[string]guard.GuardInfo // nil: nothing yet
}

// second tells what became of the guards since a second ago.
func (m *guardNews) second(t *tor, c *client.Client) {
	if !t.server.Wanted("GUARD") || c != m.of {
		m.of, m.guards = c, nil
	}
	if !t.server.Wanted("GUARD") {
		return
	}
	next := map[string]guard.GuardInfo{}
	for _, g := range c.Status().Guards.Guards {
		next[g.ID.RSA.String()] = g
	}
	if m.guards != nil {
		for id, g := range next {
			was, known := m.guards[id]
			name := router(client.Router{ID: g.ID.RSA, Name: g.Nickname})
			for _, e := range guardEvents(was, known, g) {
				t.tell("GUARD", "ENTRY "+name+" "+e)
			}
		}
		for id, g := range m.guards {
			if _, still := next[id]; !still {
				t.tell("GUARD", "ENTRY "+router(client.Router{ID: g.ID.RSA, Name: g.Nickname})+" DROPPED")
			}
		}
	}
	m.guards = next
}

// guardEvents returns the words for what is new of a guard.
func guardEvents(was guard.GuardInfo, known bool, now guard.GuardInfo) (out []string) {
	if !known {
		out = append(out, "NEW")
	}
	usable := func(g *guard.GuardInfo) bool { return g.Listed && g.Allowed && !g.DisabledByPathBias }
	switch {
	case known && usable(&was) && !usable(&now):
		out = append(out, "BAD")
	case known && !usable(&was) && usable(&now):
		out = append(out, "GOOD")
	}
	if now.Reachable != was.Reachable {
		switch now.Reachable {
		case "yes":
			out = append(out, "UP")
		case "no":
			out = append(out, "DOWN")
		}
	}
	return out
}
