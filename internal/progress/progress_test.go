package progress

import (
	"strings"
	"testing"
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
		{0, 0, "\r\x1b[Kcircuits   0% [" + strings.Repeat(" ", 40) + "]"},
		{1, 4, "\r\x1b[Kcircuits  25% [" + strings.Repeat("=", 10) + strings.Repeat(" ", 30) + "]"},
		{1, 4, ""}, // drawn already
		{5, 4, "\r\x1b[Kcircuits 100% [" + strings.Repeat("=", 40) + "]"},
		{-1, 4, "\r\x1b[Kcircuits   0% [" + strings.Repeat(" ", 40) + "]"},
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
	if s := out.String(); !strings.HasPrefix(s, "\r\x1b[K\r\x1b[Kx 100% [") || !strings.HasSuffix(s, "]\n") {
		t.Errorf("%q", s)
	}
	out.Reset()
	if OnTerminal(&out).Draw("x", 1, 1); out.Len() != 0 {
		t.Errorf("drawn on what is no terminal: %q", out.String())
	}
}
