package lang

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// goRegexp compiles a pattern with the standard library, which this package
// does not use otherwise. Go's patterns are over runes, so that a byte b is the
// rune b there (see runes), and \C and "\ " are spelt differently.
func goRegexp(t testing.TB, pattern string) *regexp.Regexp {
	t.Helper()
	pattern = strings.NewReplacer(`\\`, `\\`, `\C`, `(?s:.)`, `\ `, ` `).Replace(pattern)
	re, err := regexp.Compile(`(?s)^(?:` + strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$") + `)$`)
	if err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	return re
}

// runes maps every byte to the rune of that number.
func runes(word []byte) string {
	out := make([]rune, len(word))
	for i, b := range word {
		out[i] = rune(b)
	}
	return string(out)
}

// regexpPatterns are read alike by both engines.
var regexpPatterns = []string{
	``, `^$`, `a`, `ab?`, `(a|b)*c`, `a{3}`, `a{2,}b`, `(ab){0,2}c`, `(a?b){1,3}`, `((a|bc)+d?){2}`,
	`[a-c]*[^a-c]`, `[^\x00-\x60]+`, `\x61\x62|\x63`, `(?:a|b)c`, `a.b`, `\C\C`, `a\.b|a\*`,
	`[\d]+`, `\d\D`, `\w+\W`, `\s\S`, `[\s\d]*x`, `[-a]+`, `[a-]+b`, `[a\-c]+`, `[\]a]+`, `[.*+]a`, `a*b*c*`,
	`(a*)*b`, `(a|ab)(c|bcd)(d*)`, `a{0}b`, `(a{0,2}){2}`, `[a-c]{1,2}(x|y[0-9]?)+`, `x*`, `(x|y)?z`,
	`(a|b)*a(a|b){3}`, `\\[\\a]`, `[^a]`, `\n|\r\t`,
}

// TestAgainstRegexp enumerates short words and draws longer ones.
func TestAgainstRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	letters := []byte("abcdxyz019 .*\\-]\n\r\t_`A\xff\x00")
	for _, pattern := range regexpPatterns {
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		re := goRegexp(t, pattern)
		check := func(word []byte) {
			if got, want := l.Match(word), re.MatchString(runes(word)); got != want {
				t.Fatalf("%s: match %q is %v, want %v", pattern, word, got, want)
			}
		}
		check(nil)
		var enumerate func(word []byte)
		enumerate = func(word []byte) {
			for _, b := range []byte("abcdx1.") {
				w := append(word, b)
				check(w)
				if len(w) < 4 {
					enumerate(w)
				}
			}
		}
		enumerate(nil)
		for b := range 256 {
			check([]byte{byte(b)})
			check([]byte{'a', byte(b)})
			check([]byte{byte(b), 'a'})
		}
		for range 500 {
			word := make([]byte, r.IntN(12))
			for i := range word {
				word[i] = letters[r.IntN(len(letters))]
			}
			check(word)
		}
	}
}

// randomPattern writes a pattern that both engines read alike.
func randomPattern(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{"a", "b", "[ab]", "[^a]", "c", "."}[r.IntN(6)]
	}
	x, y := randomPattern(r, depth-1), randomPattern(r, depth-1)
	switch r.IntN(7) {
	case 0, 1:
		return x + y
	case 2:
		return "(" + x + "|" + y + ")"
	case 3:
		return "(" + x + ")*"
	case 4:
		return "(" + x + ")?" + y
	case 5:
		return fmt.Sprintf("(%s){%d,%d}", x, r.IntN(2), 2+r.IntN(2))
	}
	return "(" + x + ")+"
}

func TestRandomPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 300 {
		pattern := randomPattern(r, 1+r.IntN(4))
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		re := goRegexp(t, pattern)
		for range 200 {
			word := make([]byte, r.IntN(10))
			for i := range word {
				word[i] = "abcd"[r.IntN(4)]
			}
			if got, want := l.Match(word), re.MatchString(string(word)); got != want {
				t.Fatalf("%s: match %q is %v, want %v", pattern, word, got, want)
			}
		}
	}
}

// TestMinimal compares state counts with the known sizes of minimal automata.
func TestMinimal(t *testing.T) {
	for pattern, want := range map[string]int{
		`a`: 2, `a*`: 1, `a+`: 2, `(a|b)*`: 1, `aa*|a`: 2, `(a|b)*a(a|b){3}`: 16,
		`abc|abd`: 4, `(ab|cb)d`: 4, `[a-z]+|[a-m]+|z`: 2, `(a{0,3}){0,2}`: 7,
		`^GET\ \/([a-zA-Z0-9\.\/]*) HTTP/1\.1\r\n\r\n$`:                   19,
		`^HTTP/1\.1\ 200 OK\r\nContent-Type:\ ([a-zA-Z0-9]+)\r\n\r\n\C*$`: 37,
	} {
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if l.States() != want {
			t.Errorf("%s has %d states, want %d", pattern, l.States(), want)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		pattern string
		pos     int
		problem string
	}{
		{`a)`, 1, "unmatched )"}, {`(a`, 0, "unclosed ("}, {`*a`, 0, "nothing to repeat"},
		{`a|*`, 2, "nothing to repeat"}, {`a**`, 2, "quantifier after"}, {`a+?`, 2, "quantifier after"},
		{`a|`, 2, "empty alternative"}, {`|a`, 0, "empty alternative"}, {`(|a)`, 1, "empty alternative"},
		{`()`, 0, "empty group"}, {`[a`, 0, "unclosed ["}, {`[]`, 1, "empty class"}, {`[z-a]`, 1, "before it begins"},
		{`[\d-z]`, 1, "single bytes"}, {`[[:alpha:]]`, 1, "named classes"}, {`a^b`, 1, "start"}, {`a$b`, 1, "end"},
		{`(a$)`, 2, "end"}, {`^a|b$`, 2, "group"}, {`(?=a)`, 1, "(?:"}, {`a{2`, 3, "a count"}, {`a{,2}`, 2, "a count"},
		{`a{3,2}`, 4, "below"}, {`a{1001}`, 2, "up to 1000"}, {`{`, 0, "nothing to repeat"}, {`a]`, 1, "unmatched ]"},
		{`\q`, 0, `\q`}, {`\1`, 0, `\1`}, {`\xg0`, 0, "hexadecimal"}, {`a\`, 1, "ends with a backslash"}, {"a\xe9", 1, `\xHH`},
		{`[\C]`, 1, "every byte"}, {`[^\x00-\xff]`, 0, "no byte"}, {strings.Repeat("(", 200), 100, "nest"},
	} {
		_, err := Compile(c.pattern, Options{})
		var se *SyntaxError
		if !errors.As(err, &se) || !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if se.Pos != c.pos || !strings.Contains(se.Problem, c.problem) {
			t.Errorf("%q: byte %d: %s; want byte %d: %s", c.pattern, se.Pos, se.Problem, c.pos, c.problem)
		}
	}
}

// TestBounds holds construction to its bounds: what is too large is refused,
// and soon.
func TestBounds(t *testing.T) {
	for _, pattern := range []string{
		`((a{1000}){1000}){1000}`, `(a|b)*a(a|b){30}`, strings.Repeat("a", 5000), `(.?){1000}.{1000}.{1000}.{1000}.{1000}`,
	} {
		if _, err := Compile(pattern, Options{}); !fault.Is(err, fault.Config) {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
	l, err := Compile(`([a-z][0-9]+)+`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Slice(maxSliceLen); !fault.Is(err, fault.Resource) {
		t.Errorf("a slice of huge counts: %v", err)
	}
	if _, err := l.Slice(-1); !fault.Is(err, fault.Config) {
		t.Errorf("a slice of negative length: %v", err)
	}
	if _, err := l.Slice(1); !fault.Is(err, fault.Config) {
		t.Errorf("a slice without words: %v", err)
	}
}

func TestLengths(t *testing.T) {
	for pattern, want := range map[string][2]int{
		`abc`: {3, 3}, `a*`: {0, -1}, `a|bcd`: {1, 3}, `(ab){2,5}c?`: {4, 11}, `x[ab]+y`: {3, -1}, ``: {0, 0},
	} {
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if l.MinLen() != want[0] || l.MaxLen() != want[1] {
			t.Errorf("%q: words have %d to %d bytes, want %v", pattern, l.MinLen(), l.MaxLen(), want)
		}
	}
	l, _ := Compile(`abc[0-9]+`, Options{})
	for text, want := range map[string]int{"": 0, "ab": 2, "abx": 2, "abc12": 5, "abc1c": 4} {
		if n := l.Prefix([]byte(text)); n != want {
			t.Errorf("prefix of %q is %d, want %d", text, n, want)
		}
	}
}

// TestClassicEscapes is the quirk of regex2dfa 0.2.2 that is on the wire.
func TestClassicEscapes(t *testing.T) {
	const class = `[a-zA-Z0-9\.\/]`
	classic, err := Compile(class, Options{ClassicEscapes: true})
	if err != nil {
		t.Fatal(err)
	}
	usual, err := Compile(class, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(classic.Symbols()) != 65 || len(usual.Symbols()) != 64 || !classic.Match([]byte(`\`)) {
		t.Errorf("%d and %d symbols", len(classic.Symbols()), len(usual.Symbols()))
	}
	for pattern, word := range map[string]string{`a{2}`: "a{2}", `\q\D`: "qD", `a|b`: "b", `^a|b$`: "b"} {
		if l, err := Compile(pattern, Options{ClassicEscapes: true}); err != nil || !l.Match([]byte(word)) {
			t.Errorf("%s does not match %s: %v", pattern, word, err)
		}
	}
}

// TestFormatsMatch draws covertexts of every format and holds them to Go's
// regexp. The exception of fteproxy 0.3.2 is exact: its manual-http requests
// match once the backslashes, which the pattern does not allow, are removed.
func TestFormatsMatch(t *testing.T) {
	samples := 10000
	if testing.Short() {
		samples = 500
	}
	r := rand.New(rand.NewPCG(15, 16))
	testFormats(t, func(t testing.TB, name string, l *Language, s *Slice) {
		re := goRegexp(t, l.Pattern())
		word, x := make([]byte, s.Len()), make([]byte, s.Bytes())
		backslashes := 0
		for range samples {
			for i := range x {
				x[i] = byte(r.Uint32())
			}
			if err := s.Unrank(word, x); err != nil {
				t.Fatal(err)
			}
			text := runes(word)
			if name == "manual-http-request" && strings.Contains(text, `\`) {
				backslashes++
				text = strings.ReplaceAll(text, `\`, "")
			}
			if !re.MatchString(text) {
				t.Fatalf("%q does not match %s", word, l.Pattern())
			}
		}
		if quirk := len(l.Symbols()) == 68; name == "manual-http-request" && quirk != (backslashes > 0) {
			t.Errorf("%d covertexts of %d have a backslash", backslashes, samples)
		}
	})
}

// TestSliceAllocations holds coding to no allocation, and tables to 2 MiB.
func TestSliceAllocations(t *testing.T) {
	testFormats(t, func(t testing.TB, name string, l *Language, s *Slice) {
		word, x := make([]byte, s.Len()), make([]byte, s.Bytes())
		if n := testing.AllocsPerRun(10, func() {
			if s.Unrank(word, x) != nil || s.Rank(x, word) != nil {
				t.Fatal(name)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
		size := 0
		for i := range s.runs {
			size += 8 * len(s.runs[i].words)
		}
		if size += 64*len(s.runs) + 24*len(s.nodes); size > 2<<20 {
			t.Errorf("%s takes %d bytes", name, size)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, p := range regexpPatterns {
		f.Add(p, false)
	}
	f.Add(`^GET\ \/([a-zA-Z0-9\.\/]*) HTTP/1\.1\r\n\r\n$`, true)
	f.Fuzz(func(t *testing.T, pattern string, classic bool) {
		l, err := Compile(pattern, Options{ClassicEscapes: classic, MaxStates: 200})
		if err != nil {
			if !fault.Is(err, fault.Config) {
				t.Fatalf("%q: kind of %v", pattern, err)
			}
			return
		}
		n := l.MinLen()
		s, err := l.Slice(n)
		if fault.Is(err, fault.Resource) {
			return
		}
		if err != nil {
			t.Fatalf("%q: the shortest words: %v", pattern, err)
		}
		if size := l.Size() + s.Size(); size > maxTableSize {
			t.Fatalf("%q: tables of %d bytes", pattern, size)
		}
		word, x := make([]byte, n), make([]byte, s.Bytes())
		for i := range x {
			x[i] = byte(i * 37)
		}
		if err := s.Unrank(word, x); err != nil || !l.Match(word) {
			t.Fatalf("%q: %q, %v", pattern, word, err)
		}
		if enc, err := l.NewEncoder(); err == nil {
			w := enc.Finish(enc.Append(nil, []byte(pattern), 1), 2)
			if !l.Match(w) {
				t.Fatalf("%q: stream %q", pattern, w)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(uint8(0), []byte("hello"), uint16(3))
	f.Add(uint8(10), []byte("the quick brown fox jumps over a lazy dog and more of it"), uint16(20))
	var all []*Language
	for _, pattern := range streamPatterns {
		l, err := Compile(pattern, Options{})
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, l)
	}
	f.Fuzz(func(t *testing.T, which uint8, word []byte, size uint16) {
		l := all[int(which)%len(all)]
		pattern := l.Pattern()
		// A word that ranks must come back.
		if s, err := l.Slice(min(len(word), 40)); err == nil {
			x, back := make([]byte, s.Bytes()), make([]byte, s.Len())
			if s.Rank(x, word[:s.Len()]) == nil {
				if err := s.Unrank(back, x); err != nil || string(back) != string(word[:s.Len()]) {
					t.Fatalf("%s: %q comes back as %q, %v", pattern, word, back, err)
				}
			} else if l.Match(word[:s.Len()]) && s.CapacityBits() < 8*s.Bytes() {
				t.Fatalf("%s: %q is a word without a number", pattern, word)
			}
		}
		dec, err := l.NewDecoder()
		if err != nil {
			return
		}
		dst := make([]byte, int(size)%4096)
		dec.Begin(dst)
		n, done, err := dec.Write(word)
		if n > len(word) || err == nil && !done && n != len(word) {
			t.Fatalf("%s: took %d of %d, %v", pattern, n, len(word), done)
		}
		if err == nil && l.Prefix(word[:n]) != n {
			t.Fatalf("%s: %q passes", pattern, word[:n])
		}
	})
}
