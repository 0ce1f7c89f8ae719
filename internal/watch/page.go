package watch

import (
	"fmt"
	"strings"
	"time"
)

// page returns the rows of the page, each as wide as the terminal.
func (v *view) page(columns, rows int, now time.Time) []string {
	columns, rows = max(columns, 1), max(rows, 1)
	head := v.head(columns, rows, now)
	foot := v.foot(now)
	room := rows - len(head) - 2 // the row with the panes' names, and the last row
	var all []line
	all = append(all, head...)
	all = append(all, v.tabs(columns))
	v.room = max(room, 0)
	all = append(all, v.body(columns, v.room, now)...)
	if len(all) >= rows {
		all = all[:rows-1]
	}
	for len(all) < rows-1 {
		all = append(all, nil)
	}
	all = append(all, foot)
	out := make([]string, rows)
	for i, l := range all {
		out[i] = l.fit(columns).render(v.colours)
	}
	return out
}

// head returns the rows above the panes: who it is, its state, and the graphs.
func (v *view) head(columns, rows int, now time.Time) []line {
	s := v.snap
	if s == nil {
		return []line{v.first("", columns, now), v.trouble(say(dim, "asking the running program ..."))}
	}
	up := "up " + short(now.Sub(s.started()))
	switch {
	case s.Client != nil:
		c := s.Client
		out := []line{v.first(c.Network+"  "+up, columns, now), v.trouble(v.state())}
		if rows >= 10 {
			out = append(out, v.directory(now), say(plain, fmt.Sprintf("%s, %s (%d being built), %s",
				plural(c.Channels, "channel"), plural(c.Circuits, "circuit"), c.Building, plural(c.Streams, "stream"))))
		}
		return append(out, v.bandwidth("down", "up", columns, rows, now)...)
	case s.Relay != nil:
		state := say(good, "serving")
		switch {
		case s.Relay.Draining:
			state = say(warning, "draining")
		case s.Relay.Hibernation != "" && s.Relay.Hibernation != "awake":
			state = say(warning, "hibernating ("+s.Relay.Hibernation+")")
		case !s.Relay.Reachable:
			state = say(warning, "serving; its port has not been reached from outside yet")
		}
		return append([]line{v.first(s.Relay.Nickname+"  "+s.Relay.Network+"  "+up, columns, now), v.trouble(state)}, v.bandwidth("in", "out", columns, rows, now)...)
	case s.Authority != nil:
		return []line{v.first(s.Authority.Nickname+"  "+s.Authority.Network+"  "+up, columns, now), v.trouble(say(plain, ""))}
	}
	return []line{v.first(up, columns, now), v.trouble(nil)}
}

// first returns the first row.
func (v *view) first(text string, columns int, now time.Time) line {
	left := "chive"
	if v.snap != nil {
		left += " " + v.snap.Role + " " + v.snap.Version
	}
	if v.paused {
		left = "PAUSED  " + left
	}
	left = " " + left + "  " + text
	right := now.Format("15:04:05") + " "
	if n := columns - len(left) - len(right); n > 0 {
		return say(title, left+strings.Repeat(" ", n)+right)
	}
	return say(title, left)
}

// trouble returns why nothing is known, or l.
func (v *view) trouble(l line) line {
	if v.err != nil {
		return say(bad, v.err.Error())
	}
	return l
}

// state says whether traffic can flow.
func (v *view) state() line {
	b := v.snap.Client.Bootstrap
	if b.Ready {
		return say(good, "ready")
	}
	l := say(warning, "not ready: ")
	if b.Percent < 100 {
		l = l.and(warning, fmt.Sprintf("%d%%, ", b.Percent))
	}
	l = l.and(warning, b.Stage)
	if b.Problem != "" {
		l = l.and(bad, ": "+b.Problem)
	}
	return l
}

func (v *view) directory(now time.Time) line {
	d := v.snap.Client.Directory
	if d.ValidAfter.IsZero() {
		return say(warning, "no directory yet")
	}
	l := say(plain, "directory of "+short(now.Sub(d.ValidAfter))+" ago, ")
	if left := d.ValidUntil.Sub(now); left > 0 {
		l = l.and(plain, "good for "+short(left))
	} else {
		l = l.and(bad, "expired "+short(-left)+" ago")
	}
	return l.and(plain, fmt.Sprintf("; %d of %d relays usable", d.Usable, d.Relays))
}

const (
	// besides is the width from which both graphs stand beside each other.
	besides = 60
	// drawn is how many rows a page has at least if it has graphs.
	drawn = 16
	// highest is how many rows a graph has at most.
	highest = 8
)

// bandwidth returns the rates of both directions, with graphs if there is room.
func (v *view) bandwidth(down, up string, columns, rows int, now time.Time) []line {
	height := 0
	if rows >= drawn {
		height = min((rows-10)/4, highest)
	}
	if columns < besides {
		out := v.direction(&v.down, down, columns, height/2, now)
		return append(out, v.direction(&v.up, up, columns, height/2, now)...)
	}
	half := (columns - 2) / 2
	left, right := v.direction(&v.down, down, half, height, now), v.direction(&v.up, up, half, height, now)
	out := make([]line, len(left))
	for i := range out {
		out[i] = append(append(left[i].fit(half), span{plain, "  "}), right[i]...)
	}
	return out
}

// direction returns the rates and the graph of one direction.
func (v *view) direction(h *history, name string, width, height int, now time.Time) []line {
	average := 0.0
	if up := now.Sub(v.snap.started()).Seconds(); up >= 1 {
		average = float64(h.total) / up
	}
	l := say(bold, name+" "+bytes(h.now())+"/s")
	long := ", average " + bytes(average) + "/s, " + bytes(float64(h.total)) + " in all"
	for _, text := range []string{long + ", graph up to " + bytes(h.most(width)) + "/s", long, ", avg " + bytes(average) + "/s, " + bytes(float64(h.total))} {
		if l.width()+len(text) <= width {
			l = l.and(plain, text)
			break
		}
	}
	out := []line{l}
	for _, row := range h.graph(width, height, v.glyphs) {
		out = append(out, line{{good, row}})
	}
	return out
}

// tabs returns the row with the panes' names.
func (v *view) tabs(columns int) (l line) {
	shown := v.shown()
	for i, p := range v.panes() {
		text := p.name
		if p.count >= 0 {
			text += fmt.Sprintf(" %d", p.count)
		}
		st := plain
		if i == shown {
			st = chosen
		}
		l = l.and(st, " "+text+" ")
	}
	if n := columns - l.width(); n > 0 {
		l = l.and(dim, strings.Repeat("-", n))
	}
	return l
}

// helpLines are the keys.
var helpLines = []string{
	"q, ctrl-c       quit",
	"p, space        pause, and go on",
	"tab, left/right another pane; 1 to 5 too",
	"up/down, j/k    scroll; page up/down, home/end",
	"n               new identity: new connections use new circuits",
	"?, h            this help; any key ends it",
	"",
	"Streams have no names here: where they lead is not shown anywhere.",
}

// body returns the part of the pane that there is room for.
func (v *view) body(columns, room int, now time.Time) []line {
	p := v.panes()[v.shown()]
	var all []line
	switch {
	case v.help:
		for _, text := range helpLines {
			all = append(all, say(plain, text))
		}
		return all[:min(room, len(all))]
	default:
		all = p.lines(v, columns, now)
	}
	if len(all) == 0 {
		return []line{say(dim, "none")}[:min(room, 1)]
	}
	most := max(len(all)-room, 0)
	v.scroll[p.name] = min(v.scroll[p.name], most)
	begin := v.scroll[p.name]
	if p.name == logPane {
		begin = most - begin
	}
	return all[begin:min(begin+room, len(all))]
}

// foot returns the last row: a message, or the keys.
func (v *view) foot(now time.Time) line {
	if v.note != "" && now.Sub(v.noteAt) < told {
		return say(bold, v.note)
	}
	return say(dim, "q quit  p pause  tab pane  up/down scroll  n new identity  ? help")
}
