package lang

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// livePython ranks words with the fte package: lines of pattern, length and
// number in hexadecimal become the word, and its rank is checked on the way.
const livePython = `
import sys, regex2dfa
from fte.dfa import DFA
made = {}
for line in sys.stdin:
    pattern, n, x = [bytes.fromhex(f).decode('latin-1') for f in line.split()]
    key = (pattern, int(n))
    if key not in made:
        made[key] = DFA(regex2dfa.regex2dfa(pattern), int(n))
    d = made[key]
    v = int(x, 16)
    w = d.unrank(v)
    assert d.rank(w) == v
    print(d.capacity, w.hex())
`

// fteproxyPython finds a Python that has fteproxy's packages, and where every
// peer must be there installs them in a virtual environment of its own.
func fteproxyPython(t *testing.T) string {
	t.Helper()
	own := ""
	if cache, err := os.UserCacheDir(); err == nil {
		own = filepath.Join(cache, "chive-interop", "fte-lang")
	}
	for _, name := range []string{os.Getenv("FTEPROXY_PYTHON"), filepath.Join(own, "bin", "python3"), "python3"} {
		if name != "" && exec.Command(name, "-c", "import fte.dfa, regex2dfa").Run() == nil {
			return name
		}
	}
	if os.Getenv("CHIVE_INTEROP") != "1" {
		t.Skip("SKIPPED, NOT PROVEN: no python3 with fteproxy 0.3.2 (pip install fteproxy==0.3.2; FTEPROXY_PYTHON names another interpreter)")
	}
	if out, err := exec.Command("python3", "-m", "venv", "--clear", own).CombinedOutput(); err != nil {
		t.Fatalf("making a venv: %v: %s", err, out)
	}
	if out, err := exec.Command(filepath.Join(own, "bin", "pip"), "install", "--quiet", "--retries", "10", "fteproxy==0.3.2").CombinedOutput(); err != nil {
		t.Fatalf("installing fteproxy: %v: %s", err, out)
	}
	return filepath.Join(own, "bin", "python3")
}

// TestLiveFteproxy compares random numbers of every format, and patterns that
// fteproxy does not ship, with the real code.
func TestLiveFteproxy(t *testing.T) {
	python := fteproxyPython(t)
	r := rand.New(rand.NewPCG(17, 18))
	type ask struct {
		s    *Slice
		x, w []byte
	}
	var asks []ask
	var in bytes.Buffer
	add := func(s *Slice, x []byte) {
		word := make([]byte, s.Len())
		if err := s.Unrank(word, x); err != nil {
			t.Fatal(err)
		}
		asks = append(asks, ask{s, x, word})
		for _, f := range []string{s.lang.pattern, fmt.Sprint(s.n), "0" + hex.EncodeToString(x)} {
			fmt.Fprintf(&in, "%s ", hex.EncodeToString([]byte(f)))
		}
		in.WriteByte('\n')
	}
	testFormats(t, func(t testing.TB, name string, l *Language, s *Slice) {
		if l.Pattern() == `^SSH\-2\.0\C*$` || strings.Contains(t.Name(), "/20131224/") {
			return // numbered in the order of fteproxy 0.2
		}
		for _, x := range testNumbers(s, r, 5) {
			add(s, x)
		}
	})
	for _, pattern := range []string{`[\w.]+x?[^a-y]{2}`, `(a|bb|[c-f]\C)*z`, `\d+(\.\d+)?\s\q+`} {
		l, err := Compile(pattern, Options{ClassicEscapes: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Slice(77)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range testNumbers(s, r, 5) {
			add(s, x)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", livePython)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", python, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(asks) {
		t.Fatalf("%d answers to %d questions", len(lines), len(asks))
	}
	for i, a := range asks {
		if want := fmt.Sprintf("%d %x", a.s.CapacityBits(), a.w); lines[i] != want {
			t.Errorf("%s, number %x:\nfteproxy %s\n     our %s", a.s.lang.pattern, a.x, lines[i], want)
		}
	}
}
