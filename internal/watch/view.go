package watch

import (
	"time"
)

// logKept is how many lines of the log the view keeps.
const logKept = 1000

// told is how long a message stays.
const told = 5 * time.Second

// view is what the page shows, and how.
type view struct {
	colours bool
	glyphs  []rune // of graphs

	snap     *Snapshot // nil: none yet
	err      error     // why there is no newer one
	down, up history
	log      []string
	lastLine uint64

	pane   string         // the name of the one that is shown
	scroll map[string]int // lines from the top of each pane, of the log from its end
	room   int            // lines that the page had for the pane
	paused bool
	help   bool
	note   string
	noteAt time.Time
}

func newView(colours, unicode bool) *view {
	v := &view{colours: colours, glyphs: ascii, scroll: map[string]int{}}
	if unicode {
		v.glyphs = blocks
	}
	return v
}

// take takes over a snapshot, or the reason why there is none.
func (v *view) take(s *Snapshot, err error, now time.Time) {
	if v.paused {
		return
	}
	if v.err = err; err != nil {
		return
	}
	if v.snap != nil && !v.snap.started().Equal(s.started()) {
		v.log, v.down, v.up = nil, history{}, history{} // another process
	}
	v.snap, v.lastLine = s, s.LastLine
	down, up := s.traffic()
	v.down.add(down, now)
	v.up.add(up, now)
	v.log = append(v.log, s.Log...)
	v.log = v.log[max(0, len(v.log)-logKept):]
	if v.scroll[logPane] > 0 {
		v.scroll[logPane] += len(s.Log) // what the user reads stays where it is
	}
}

// tell shows a message for some seconds.
func (v *view) tell(text string, now time.Time) { v.note, v.noteAt = text, now }

func (s *Snapshot) started() time.Time {
	switch {
	case s.Client != nil:
		return s.Client.Started
	case s.Relay != nil:
		return s.Relay.Started
	case s.Authority != nil:
		return s.Authority.Started
	}
	return time.Time{}
}

// traffic returns the bytes on the links since the start: of a client also those of its onion
// services and its directory.
func (s *Snapshot) traffic() (down, up uint64) {
	switch {
	case s.Client != nil:
		return s.Client.LinkIn, s.Client.LinkOut
	case s.Relay != nil:
		return s.Relay.BytesIn, s.Relay.BytesOut
	}
	return 0, 0
}

// key is a key that was pressed: a character, or one of the constants.
type key rune

const (
	keyUp key = -iota - 1
	keyDown
	keyLeft
	keyRight
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
	keyBackTab
	keyEscape

	keyTab   key = '\t'
	keyCtrlC key = 3
	keyCtrlD key = 4
)

// act is what a key asks of others than the view.
type act uint8

const (
	nothing act = iota
	quit
	newIdentity
	resume
)

// press takes a key.
func (v *view) press(k key) act {
	if v.help && k != 'q' && k != keyCtrlC {
		v.help = false
		return nothing
	}
	switch k {
	case 'q', 'Q', keyCtrlC, keyCtrlD:
		return quit
	case 'p', ' ':
		if v.paused = !v.paused; !v.paused {
			return resume
		}
	case 'n':
		return newIdentity
	case '?', 'h':
		v.help = true
	case keyTab, keyRight, 'l':
		v.turn(1)
	case keyBackTab, keyLeft:
		v.turn(-1)
	case keyUp, 'k':
		v.move(-1)
	case keyDown, 'j':
		v.move(1)
	case keyPageUp:
		v.move(-max(v.room-1, 1))
	case keyPageDown:
		v.move(max(v.room-1, 1))
	case keyHome, 'g':
		v.move(-1 << 30)
	case keyEnd, 'G':
		v.move(1 << 30)
	default:
		if all := v.panes(); k >= '1' && int(k-'1') < len(all) {
			v.pane = all[k-'1'].name
		}
	}
	return nothing
}

// turn shows another pane.
func (v *view) turn(by int) {
	all, i := v.panes(), v.shown()
	v.pane = all[(i+by+len(all))%len(all)].name
}

// shown returns the number of the pane that is shown.
func (v *view) shown() int {
	for i, p := range v.panes() {
		if p.name == v.pane {
			return i
		}
	}
	return 0
}

// move scrolls the pane. The page limits how far.
func (v *view) move(by int) {
	name := v.panes()[v.shown()].name
	if name == logPane {
		by = -by
	}
	v.scroll[name] = max(v.scroll[name]+by, 0)
}
