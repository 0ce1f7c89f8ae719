package logline

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/chivenet/chive/internal/progress"
)

// people rewrites the lines of slog's text handler for people: the time of day, the level,
// the message, and then the fields. The text handler has put what a terminal could obey into
// quotes, with escapes; it stays so.
type people struct {
	w      io.Writer
	colour bool
}

// Write takes one record.
func (p *people) Write(record []byte) (int, error) {
	if _, err := io.WriteString(p.w, p.line(strings.TrimSuffix(string(record), "\n"))+"\n"); err != nil {
		return 0, err
	}
	return len(record), nil
}

// The colours of levels and of keys, as ECMA-48's SGR numbers them.
var levelColours = map[string]string{"DEBUG": faint, "INFO": "32", "WARN": "33", "ERROR": "31"}

const faint = "2"

func (p *people) line(record string) string {
	var b bytes.Buffer
	at, rest := field(record, "time")
	if _, clock, ok := strings.Cut(at, "T"); ok && len(clock) >= len("15:04:05") {
		b.WriteString(clock[:len("15:04:05")] + " ")
	}
	level, rest := field(rest, "level")
	b.WriteString(p.paint(levelColours[level], level) + strings.Repeat(" ", max(5-len(level), 0)))
	message, rest := field(rest, "msg")
	b.WriteString(" " + bare(message))
	if rest != "" {
		b.WriteString(" ")
	}
	for rest != "" {
		key := token(rest, '=')
		value := token(strings.TrimPrefix(rest[len(key):], "="), ' ')
		b.WriteString(" " + p.paint(faint, key+"=") + value)
		rest = strings.TrimPrefix(rest[min(len(key)+1+len(value), len(rest)):], " ")
	}
	return b.String()
}

// field cuts the field with a key off the beginning of a record, if it is there.
func field(record, key string) (value, rest string) {
	rest, ok := strings.CutPrefix(record, key+"=")
	if !ok {
		return "", record
	}
	value = token(rest, ' ')
	return value, strings.TrimPrefix(rest[len(value):], " ")
}

// token returns the text at the beginning of s up to end, or the text in quotes.
func token(s string, end byte) string {
	if quoted, err := strconv.QuotedPrefix(s); err == nil {
		return quoted
	}
	if i := strings.IndexByte(s, end); i >= 0 {
		return s[:i]
	}
	return s
}

// bare takes the quotes off a message, but for one in which something is escaped that is not
// printable.
func bare(s string) string {
	text, err := strconv.Unquote(s)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return text
}

func (p *people) paint(colour, s string) string {
	if !p.colour || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// colours reports whether a terminal shows colours, and its user wants them
// (https://no-color.org: any text in NO_COLOR says no).
func colours(w io.Writer) bool {
	return wanted(os.Getenv) && prepare(progress.File(w))
}

func wanted(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
