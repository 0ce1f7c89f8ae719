package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/torrc"
)

// lost collects the lines of a torrc that are lost, or not quite what they were.
type lost struct {
	plain  []string // for whoever moves to know
	guards []string // that limit or protect something
	count  int      // of both, without those of another program that the torrc describes
}

// add collects a line. kept says that there is a setting for it, which differs.
func (l *lost) add(line torrc.Line, why string, kept bool) {
	text := fmt.Sprintf("%s: %s %s: %s", line.At(), line.Key, line.Value, why)
	l.count++
	if torrc.Guards(line) && !kept {
		l.guards = append(l.guards, text)
	} else {
		l.plain = append(l.plain, text)
	}
}

// tell writes the lines, and last those that nobody should miss.
func (l *lost) tell(w io.Writer, file string) {
	for _, s := range l.plain {
		fmt.Fprintln(w, progress.PrintableLines(s))
	}
	if len(l.guards) == 0 {
		return
	}
	fmt.Fprintf(w, "\nWARNING: the new file is less safe than %s. These lines limit or protect something, and no setting does so in their place:\n", file)
	for _, s := range l.guards {
		fmt.Fprintln(w, "  "+progress.PrintableLines(s))
	}
	fmt.Fprintln(w)
}

// imported returns the file of a program, and which lines have no place in it. has are the
// programs that the torrc describes.
func imported(doc *torrc.Document, to importRole, has torrc.Role, from string) ([]byte, *lost) {
	var settings, notes bytes.Buffer
	l := new(lost)
	kept := map[string]bool{}
	for _, s := range slices.Concat(append(doc.Onions, doc.Settings)...) {
		for _, line := range s.From {
			kept[line.At()] = true
		}
	}
	for _, s := range doc.Settings {
		writeSetting(&settings, s, to.settings, l)
	}
	for _, service := range doc.Onions {
		fmt.Fprint(&settings, "\n[[onion]]\n")
		for _, s := range service {
			writeSetting(&settings, s, func() *daemon.Settings { return daemon.NewOnionSettings(new([]string)) }, l)
		}
	}
	for _, n := range doc.Notes {
		fmt.Fprintf(&notes, "# %s: %s %s: %s\n", n.Line.At(), n.Line.Key, n.Line.Value, n.Why)
		switch {
		case n.Same:
		case n.In&has != 0: // the file of the other program has it
			l.plain = append(l.plain, fmt.Sprintf("%s: %s %s: %s", n.Line.At(), n.Line.Key, n.Line.Value, n.Why))
		default:
			l.add(n.Line, n.Why, kept[n.Line.At()])
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Settings of chive %s, made from %s.\n", to.name, from)
	if len(l.guards) > 0 {
		fmt.Fprint(&out, "#\n# WARNING: less safe than that file. These lines limit or protect something, and no setting does so in their place:\n")
		for _, s := range l.guards {
			fmt.Fprintf(&out, "#   %s\n", s)
		}
		fmt.Fprint(&out, "#\n")
	}
	out.Write(settings.Bytes())
	if notes.Len() > 0 {
		fmt.Fprint(&out, "\n# Lines without a setting here, or with a difference:\n")
		out.Write(notes.Bytes())
	}
	return out.Bytes(), l
}

// writeSetting writes one setting, or a comment if the program would not take it.
func writeSetting(out io.Writer, s *torrc.Setting, fresh func() *daemon.Settings, l *lost) {
	for _, line := range s.From {
		fmt.Fprintf(out, "# %s: %s %s\n", line.At(), line.Key, line.Value)
	}
	text := s.Key + " = " + daemon.TOMLValue(s, fresh) + "\n"
	if err := fresh().ReadFile("torrc", []byte(text)); err != nil {
		for _, line := range s.From {
			l.add(line, err.Error(), false)
		}
		fmt.Fprintf(out, "# %s# %v\n", text, err)
		return
	}
	fmt.Fprint(out, text)
}
