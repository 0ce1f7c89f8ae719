// Package torrc reads configuration files of C tor (tor(1)), and translates them into
// Chive's options. It knows every option of tor(1): its name here, or why it has none.
package torrc

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Line is one option of a torrc.
type Line struct {
	File       string
	Number     int // of its first line, from 1
	Key, Value string
	// Adds says that "+" stands before the key: the value is added to those of files that were read before.
	Adds bool
}

// At says where the line is.
func (l Line) At() string { return fmt.Sprintf("%s:%d", l.File, l.Number) }

// Source is a file's name and text.
type Source struct {
	Name string
	Text []byte
}

// Bounds of what one torrc may include. A file that includes itself twice would be read
// 2^maxDepth times.
const (
	maxDepth = 16
	maxFiles = 1000
	maxLines = 100_000
)

// Lines splits a torrc into its options: it removes comments and quotes, and joins
// lines that continue. include returns the files that the argument of %include names;
// if it is nil, %include is an error.
func Lines(s Source, include func(pattern string) ([]Source, error)) ([]Line, error) {
	r := reader{include: include}
	err := r.read(s, 0)
	return r.lines, err
}

type reader struct {
	include func(string) ([]Source, error)
	lines   []Line
	files   int // included
}

func (r *reader) read(s Source, depth int) error {
	for _, l := range split(s) {
		if !strings.EqualFold(l.Key, "%include") {
			if r.lines = append(r.lines, l); len(r.lines) > maxLines {
				return fault.New(fault.Config, "%s: more than %d lines", l.At(), maxLines)
			}
			continue
		}
		if r.include == nil {
			return fault.New(fault.Config, "%s: %%include cannot be followed: import the file that it names", l.At())
		}
		if depth == maxDepth {
			return fault.New(fault.Config, "%s: %%include within %d others", l.At(), maxDepth)
		}
		files, err := r.include(l.Value)
		if err != nil {
			return fault.New(fault.Config, "%s: %%include: %w", l.At(), err)
		}
		for _, f := range files {
			if r.files++; r.files > maxFiles {
				return fault.New(fault.Config, "%s: %%include: more than %d files are included", l.At(), maxFiles)
			}
			if err := r.read(f, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// split makes the lines of one file.
func split(s Source) []Line {
	var out []Line
	var pending strings.Builder // a line that continues on the next one
	first := 0
	all := strings.Split(string(s.Text), "\n")
	for i, raw := range all {
		raw = strings.TrimRight(raw, "\r")
		if pending.Len() == 0 {
			first = i + 1
		}
		text := uncommented(raw)
		indent := raw[:len(raw)-len(strings.TrimLeft(raw, " \t"))]
		if pending.Len() > 0 { // nothing but its own white space parts a line from the one before
			text = indent + text
		}
		if head, ok := strings.CutSuffix(strings.TrimRight(text, " \t"), `\`); ok && i < len(all)-1 {
			pending.WriteString(head)
			continue
		}
		if pending.Len() > 0 && strings.HasPrefix(strings.TrimSpace(raw), "#") {
			pending.WriteString(indent) // a comment between continued lines does not end the continuation
			continue
		}
		pending.WriteString(text)
		text = strings.TrimSpace(pending.String())
		pending.Reset()
		if text == "" {
			continue
		}
		key, value := text, ""
		if c := strings.IndexAny(text, " \t"); c >= 0 {
			key, value = text[:c], strings.TrimSpace(text[c:])
		}
		if unquoted, err := strconv.Unquote(value); err == nil && strings.HasPrefix(value, `"`) {
			value = unquoted
		}
		// "+Option" appends and "/Option" resets, in files that add to others.
		key, adds := strings.CutPrefix(key, "+")
		out = append(out, Line{s.Name, first, key, value, adds})
	}
	return out
}

// uncommented removes a comment. Only a value that begins with a quote may contain "#".
func uncommented(s string) string {
	s = strings.TrimLeft(s, " \t")
	if i := strings.IndexAny(s, " \t#"); i >= 0 && s[i] != '#' {
		value := strings.TrimLeft(s[i:], " \t")
		if q, err := strconv.QuotedPrefix(value); err == nil && q[0] == '"' && strings.HasPrefix(strings.TrimSpace(value[len(q):])+"#", "#") {
			return s[:i+1] + q
		}
	}
	s, _, _ = strings.Cut(s, "#")
	return s
}
