package watch

import (
	"strings"
	"unicode/utf8"
)

// style is how characters look.
type style uint8

const (
	plain style = iota
	bold
	dim
	good
	warning
	bad
	title  // the first line
	chosen // the pane that is shown
)

// codes are the styles' parameters of the control code SGR, with and without colours.
var codes = [...][2]string{
	plain: {"", ""}, bold: {"1", "1"}, dim: {"2", "2"}, good: {"32", ""}, warning: {"33", "1"}, bad: {"1;31", "1"},
	title: {"7", "7"}, chosen: {"1;7", "1;7"},
}

// span is characters of one style, each one column wide.
type span struct {
	style style
	text  string
}

// line is a row of the page, or a part of one.
type line []span

// say returns a line of one span, without what could steer the terminal.
func say(st style, text string) line { return line{{st, safe(text)}} }

func (l line) and(st style, text string) line { return append(l, span{st, safe(text)}) }

// safe replaces all characters that are not printable ASCII.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '…': // the log shortens fingerprints with it
			return '~'
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, s)
}

func (l line) width() (n int) {
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// fit returns the line with that width: it cuts it off, or adds spaces.
func (l line) fit(width int) line {
	var out line
	for _, s := range l {
		n := utf8.RuneCountInString(s.text)
		if n > width {
			s.text = string([]rune(s.text)[:max(width, 0)])
			n = max(width, 0)
		}
		width -= n
		out = append(out, s)
	}
	if width > 0 {
		last := plain
		if len(l) > 0 && l[0].style == title {
			last = title
		}
		out = append(out, span{last, strings.Repeat(" ", width)})
	}
	return out
}

// render returns the line with control codes.
func (l line) render(colours bool) string {
	var b strings.Builder
	for _, s := range l {
		code := codes[s.style][0]
		if !colours {
			code = codes[s.style][1]
		}
		if code == "" || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + code + "m" + s.text + "\x1b[m")
	}
	return b.String()
}

// wrap puts parts on one line, or, if that is too narrow, on several: those after the
// first are indented.
func wrap(width int, parts ...line) (out []line) {
	const indent = "      "
	var now line
	for _, p := range parts {
		if len(now) > 0 && now.width()+p.width() > width {
			out = append(out, now)
			now = say(plain, indent)
		}
		now = append(now, p...)
	}
	return append(out, now)
}
