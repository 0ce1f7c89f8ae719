package torrc

import (
	"slices"
	"strings"
)

// The functions here decide which of several lines counts.

// outweighs reports whether the setting counts more than another line's value for it,
// whatever their order. Of the two options for padding, the one that sends less counts; a
// relay's own limit counts before the one for all that C tor does; and the log's level is
// the one that its file has.
func outweighs(s *Setting, l Line, value string) bool {
	from := s.From[0]
	switch {
	case s.Key == "log-level":
		_, was := logFile(from.Value)
		_, is := logFile(l.Value)
		return was && !is
	case strings.EqualFold(from.Key, l.Key):
		return false
	case strings.HasPrefix(s.Key, "bandwidth-"):
		return forRelay(from)
	}
	rank := []string{"auto", "reduced", "off"}
	return slices.Contains(rank, value) && slices.Index(rank, s.Values[0]) > slices.Index(rank, value)
}

// forRelay reports whether a line is about a relay's traffic only.
func forRelay(l Line) bool { return strings.HasPrefix(strings.ToLower(l.Key), "relay") }

func (t *translation) drop(key, why string) {
	t.dropUnless(func(Line) bool { return false }, key, why)
}

// dropUnless drops a setting, unless it comes from a line of some kind.
func (t *translation) dropUnless(kept func(Line) bool, key, why string) {
	t.doc.Settings = slices.DeleteFunc(t.doc.Settings, func(s *Setting) bool {
		if s.Key != key || kept(s.From[0]) {
			return false
		}
		for _, l := range s.From {
			t.note(l, why, true)
		}
		return true
	})
}
