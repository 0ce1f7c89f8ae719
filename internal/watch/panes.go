package watch

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/progress"
)

// pane is one of the lists below the graphs.
type pane struct {
	name  string
	count int // shown behind the name; -1: none
	lines func(v *view, width int, now time.Time) []line
}

// logPane is the name of the pane with the log, which scrolls from its end.
const logPane = "Log"

// panes returns what there is to show.
func (v *view) panes() []pane {
	log := pane{logPane, -1, (*view).logLines}
	s := v.snap
	switch {
	case s == nil:
		return []pane{log}
	case s.Client == nil:
		return []pane{{"Status", -1, (*view).textLines}, log}
	}
	all := []pane{
		{"Circuits", s.Client.Circuits, (*view).circuitLines}, {"Streams", s.Client.Streams, (*view).streamLines},
		{"Guards", len(s.Client.Guards), (*view).guardLines},
	}
	if len(s.Onions) > 0 {
		all = append(all, pane{"Onions", len(s.Onions), (*view).onionLines})
	}
	return append(all, log)
}

func (v *view) textLines(width int, _ time.Time) (out []line) {
	for text := range strings.Lines(v.snap.Text) {
		text = strings.TrimSuffix(text, "\n")
		for ; len(text) > width; text = "           " + text[width:] {
			if width < 20 {
				break
			}
			out = append(out, say(plain, text[:width]))
		}
		out = append(out, say(plain, text))
	}
	return out
}

// wideEnough is the width from which fingerprints stand beside nicknames.
const wideEnough = 110

func (v *view) circuitLines(width int, _ time.Time) (out []line) {
	streams := map[uint64]int{}
	for _, s := range v.snap.Client.Carried {
		streams[s.Circuit]++
	}
	if len(v.snap.Client.Open) == 0 {
		return nil
	}
	out = []line{say(dim, "circuit streams  relays (and what protects each)")}
	for _, c := range v.snap.Client.Open {
		parts := []line{say(plain, fmt.Sprintf("%7d ", c.ID))}
		if n := streams[c.ID]; n > 0 {
			parts[0] = parts[0].and(bold, fmt.Sprintf("%7d  ", n))
		} else {
			parts[0] = parts[0].and(plain, "         ")
		}
		for i, id := range c.Path {
			name := ""
			if i < len(c.Nicknames) {
				name = c.Nicknames[i]
			}
			part := say(plain, relayName(id, name, width))
			if i > 0 {
				part = append(say(dim, "> "), part...)
			}
			if i < len(c.Hops) {
				part = part.and(protection(c.Hops[i]))
			}
			parts = append(parts, part.and(plain, " "))
		}
		out = append(out, wrap(width, parts...)...)
	}
	return out
}

// relayName returns what people know a relay by.
func relayName(id, nickname string, width int) string {
	if len(id) > 8 {
		id = id[:8]
	}
	switch {
	case nickname == "":
		return id
	case width >= wideEnough:
		return nickname + "~" + id
	}
	return nickname
}

// protection says what protects a hop.
func protection(h chive.HopProtection) (style, string) {
	st := plain
	if h.PQ != "" {
		st = good
	}
	return st, " (" + h.String() + ")"
}

func (v *view) streamLines(_ int, now time.Time) []line {
	all := v.snap.Client.Carried
	if len(all) == 0 {
		return nil
	}
	out := []line{say(dim, " stream circuit     open       down         up")}
	for _, s := range all {
		out = append(out, say(plain, fmt.Sprintf("%7d %7d %8s %10s %10s", s.ID, s.Circuit, short(now.Sub(s.Opened)), bytes(float64(s.Read)), bytes(float64(s.Written)))))
	}
	return out
}

func (v *view) guardLines(width int, _ time.Time) (out []line) {
	for _, b := range v.snap.Client.Bridges {
		l := say(plain, fmt.Sprintf("bridge %s %s ", cmp.Or(b.Transport, "plain"), relayName(cmp.Or(b.Fingerprint, "unknown"), b.Nickname, width)))
		if b.Usable {
			l = l.and(good, "usable ")
		} else {
			l = l.and(warning, "not usable yet ")
		}
		if b.Problem != "" {
			l = l.and(bad, "("+b.Problem+")")
		}
		out = append(out, l)
	}
	for _, g := range v.snap.Client.Guards {
		l := say(plain, fmt.Sprintf("%.8s %-19s ", g.Fingerprint, g.Nickname))
		switch g.Reachable {
		case "yes":
			l = l.and(good, "reachable")
		case "no":
			l = l.and(bad, "not reachable")
		default:
			l = l.and(plain, g.Reachable)
		}
		if g.Confirmed {
			l = l.and(plain, ", confirmed")
		}
		if !g.Usable {
			l = l.and(warning, ", not usable now")
		}
		out = append(out, l)
	}
	return out
}

func (v *view) onionLines(width int, now time.Time) (out []line) {
	for _, o := range v.snap.Onions {
		l := say(bold, o.Name+" ")
		if o.Published {
			l = l.and(good, "published, ")
		} else {
			l = l.and(warning, "not published yet, ")
		}
		parts := []line{
			l, say(plain, plural(len(o.IntroductionPoints), "introduction point")+", "), say(plain, plural(o.Circuits, "client")+", "),
			say(plain, plural(o.Streams, "stream")),
		}
		if !o.Uploaded.IsZero() {
			parts = append(parts, say(plain, ", "), say(plain, "descriptor uploaded "+short(now.Sub(o.Uploaded))+" ago"))
		}
		out = append(out, wrap(width, parts...)...)
		out = append(out, say(dim, "      "+o.Address))
		if o.Problem != "" {
			out = append(out, say(bad, "      "+o.Problem))
		}
	}
	return out
}

func (v *view) logLines(width int, _ time.Time) (out []line) {
	for _, text := range v.log {
		st := plain
		switch {
		case strings.Contains(text, "level=ERROR") || strings.Contains(text, `"level":"ERROR"`):
			st = bad
		case strings.Contains(text, "level=WARN") || strings.Contains(text, `"level":"WARN"`):
			st = warning
		}
		text = safe(brief(text))
		for width >= 20 && len(text) > width {
			out = append(out, say(st, text[:width]))
			text = "  " + text[width:]
		}
		out = append(out, say(st, text))
	}
	return out
}

// brief shortens a line of the log in its text form: the time of day, the level and the rest.
func brief(text string) string {
	at, rest, ok := strings.Cut(text, " level=")
	level, rest, ok2 := strings.Cut(rest, " msg=")
	_, clock, ok3 := strings.Cut(at, "T")
	if !ok || !ok2 || !ok3 || !strings.HasPrefix(at, "time=") || len(clock) < len("15:04:05") {
		return text
	}
	return clock[:len("15:04:05")] + " " + level + " " + rest
}

// plural counts things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bytes writes a number of bytes for people.
func bytes(n float64) string { return progress.Bytes(int64(n)) }

// short writes a time for people, with its two greatest units.
func short(d time.Duration) string {
	d = max(d, 0)
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}
