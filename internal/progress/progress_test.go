package progress

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBar(t *testing.T) {
	var out strings.Builder
	b := New(&out)
	b.End()
	b.Clear() // of nothing: nothing
	for _, v := range []struct {
		done, of int
		want     string
	}{
		{0, 0, "\r\x1b[K  0% [" + strings.Repeat(" ", 40) + "] circuits"},
		{1, 4, "\r\x1b[K 25% [" + strings.Repeat("=", 10) + strings.Repeat(" ", 30) + "] circuits"},
		{1, 4, ""}, // drawn already
		{5, 4, "\r\x1b[K100% [" + strings.Repeat("=", 40) + "] circuits"},
		{-1, 4, "\r\x1b[K  0% [" + strings.Repeat(" ", 40) + "] circuits"},
	} {
		b.Draw("circuits", v.done, v.of)
		if out.String() != v.want {
			t.Errorf("%d of %d: %q, want %q", v.done, v.of, out.String(), v.want)
		}
		out.Reset()
	}
	b.Clear()
	b.Draw("x", 1, 1)
	b.End()
	b.End()
	if s := out.String(); !strings.HasPrefix(s, "\r\x1b[K\r\x1b[K100% [") || !strings.HasSuffix(s, "] x\n") {
		t.Errorf("%q", s)
	}
	out.Reset()
	if OnTerminal(&out).Draw("x", 1, 1); out.Len() != 0 {
		t.Errorf("drawn on what is no terminal: %q", out.String())
	}
}

// TestControlCodes: what a text holds cannot steer the terminal.
func TestControlCodes(t *testing.T) {
	var out strings.Builder
	New(&out).Draw("a\x1b[2Jb\nc\u009b", 0, 1)
	if s := out.String(); !strings.HasSuffix(s, "] a [2Jb c ") {
		t.Errorf("%q", s)
	}
}

// TestLongText: a line never wraps, however long its text and narrow its
// terminal.
func TestLongText(t *testing.T) {
	for _, columns := range []int{200, 80, 20, 1} {
		var out strings.Builder
		b := New(&out)
		b.columns = func() int { return columns }
		b.Draw(strings.Repeat("ä", 300), 1, 2)
		line := strings.TrimPrefix(out.String(), "\r\x1b[K")
		if n := utf8.RuneCountInString(line); n != columns-1 || !utf8.ValidString(line) {
			t.Errorf("%d columns: %d characters, %q", columns, n, line)
		}
	}
}

// TestShared: lines are written above the bar, which is drawn again below them.
func TestShared(t *testing.T) {
	var out strings.Builder
	s := &Shared{w: &out}
	b := New(s)
	said := func(want string) {
		t.Helper()
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
		out.Reset()
	}
	s.Write([]byte("before\n"))
	said("before\n")
	b.Draw("x", 0, 1)
	bar := "  0% [" + strings.Repeat(" ", 40) + "] x"
	said("\r\x1b[K" + bar)
	s.Write([]byte("a line\n"))
	said("\r\x1b[Ka line\n" + bar)
	b.Clear()
	said("\r\x1b[K")
	s.Write([]byte("after\n"))
	said("after\n")
}
