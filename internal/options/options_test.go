package options

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// mode is an option that reads its own text.
type mode uint8

var modes = []string{"auto", "on"}

func (m mode) MarshalText() ([]byte, error) {
	if int(m) < len(modes) {
		return []byte(modes[m]), nil
	}
	return []byte("invalid"), nil
}

func (m *mode) UnmarshalText(b []byte) error {
	i := slices.Index(modes, string(b))
	if i < 0 {
		return fault.New(fault.Config, "%q is none of %q", b, modes)
	}
	*m = mode(i)
	return nil
}

// config has a field of each type.
type config struct {
	Name   string `reload:"live"`
	Kind   string
	Word   string
	Strict bool
	Guards int `reload:"live"`
	Bytes  uint64
	Wait   time.Duration
	Nodes  []string `reload:"live"`
	Lines  []string
	Mode   mode
	Level  slog.Level
	Params map[string]int32
}

var table = Table{
	{"First", []Option{
		{Key: "name", Field: "Name", Default: "nobody", Help: "`NAME`"},
		{Key: "kind", Field: "Kind", Default: "text", OneOf: []string{"text", "json"}},
		{Key: "word", Field: "Word", OneOf: []string{"", "the-word"}},
		{Key: "strict", Field: "Strict"},
		{Key: "guards", Field: "Guards", Bounds: Bounds{2, 20}, Zero: "three"},
	}},
	{"Second", []Option{
		{Key: "bytes", Field: "Bytes", Bounds: Bounds{10, 100}},
		{Key: "wait", Field: "Wait", Bounds: between(time.Second, time.Hour), Zero: "1m"},
		{Key: "nodes", Field: "Nodes", Default: "a,b", Each: func(s string) error {
			if s == "bad" {
				return fault.New(fault.Config, "it is bad")
			}
			return nil
		}},
		{Key: "line", Field: "Lines", Lines: true},
		{Key: "mode", Field: "Mode"},
		{Key: "level", Field: "Level"},
		{Key: "param", Field: "Params"},
	}},
}

func bind(t *testing.T, file string, args ...string) (*Set, *config, error) {
	t.Helper()
	c := &config{Bytes: 50}
	s := Bind(Part{Table: table, Of: c})
	for i := 0; i < len(args); i += 2 {
		if err := s.byKey[args[i]].Set(args[i+1]); err != nil {
			return s, c, err
		}
	}
	return s, c, s.ReadFile("f", []byte(file))
}

// TestPrecedence: defaults, then the file, then flags.
func TestPrecedence(t *testing.T) {
	_, c, err := bind(t, "")
	if want := (config{Name: "nobody", Kind: "text", Nodes: []string{"a", "b"}}); err != nil || !reflect.DeepEqual(*c, want) {
		t.Fatalf("%+v %v", c, err)
	}
	const file = "name = 'file'\nguards = 3\nbytes = 10\nstrict = true\nwait = '2s'\nnodes = ['c']\nline = ['x,y', 'z']\nmode = 'on'\nparam = {one = 1, two = -2}\n"
	_, c, err = bind(t, file)
	want := config{Name: "file", Kind: "text", Strict: true, Guards: 3, Bytes: 10, Wait: 2 * time.Second, Nodes: []string{"c"}, Lines: []string{"x,y", "z"}, Mode: 1, Params: map[string]int32{"one": 1, "two": -2}}
	if err != nil || !reflect.DeepEqual(*c, want) {
		t.Errorf("the file does not win over defaults: %+v %v", c, err)
	}
	_, c, err = bind(t, file, "name", "", "guards", "0x10", "nodes", "d,\"e,f\"", "nodes", "g", "line", "1,2", "line", "3", "param", "three=3,four=4", "param", "five=5", "strict", "false", "mode", "auto", "wait", "1m")
	want = config{Kind: "text", Guards: 16, Bytes: 10, Wait: time.Minute, Nodes: []string{"d", "e,f", "g"}, Lines: []string{"1,2", "3"}, Params: map[string]int32{"three": 3, "four": 4, "five": 5}}
	if err != nil || !reflect.DeepEqual(*c, want) {
		t.Errorf("flags do not win over the file: %+v %v", c, err)
	}
}

// TestQuotesInsideAnEntry: quotes that do not stand around a whole entry belong to it, as in a
// port with flags, on the command line as in a file.
func TestQuotesInsideAnEntry(t *testing.T) {
	const port = `unix:"/run/my socks" Flag`
	want := []string{port, "b"}
	_, c, err := bind(t, "", "nodes", port, "nodes", "b")
	if err != nil || !reflect.DeepEqual(c.Nodes, want) {
		t.Errorf("two flags: %q, %v", c.Nodes, err)
	}
	s, c, err := bind(t, "", "nodes", port+",b")
	if err != nil || !reflect.DeepEqual(c.Nodes, want) {
		t.Errorf("one flag: %q, %v", c.Nodes, err)
	}
	shown := strings.Trim(s.byKey["nodes"].String(), "[]")
	if _, again, err := bind(t, "", "nodes", shown); err != nil || !reflect.DeepEqual(again.Nodes, want) {
		t.Errorf("as it is shown, %s: %q, %v", shown, again.Nodes, err)
	}
}

// TestMistakes: the error for each kind of mistake names the line and the key.
func TestMistakes(t *testing.T) {
	for file, want := range map[string]string{
		"\nnmae = 'x'":             `f:2: unknown key "nmae"; did you mean "name"?`,
		"name = 'x'\n[other]\na=1": `f:2: unknown key "other"`,
		"\n\nguards = 21":          `f:3: guards: 21 is not from 2 to 20`,
		"guards = 1":               `f:1: guards: 1 is not from 2 to 20`,
		"guards = '3'":             `f:1: guards: 3: string, not integer`,
		"strict = 'true'":          `f:1: strict: true: string, not boolean`,
		"wait = 30":                `f:1: wait: 30 has no unit: write "30s" for seconds`,
		"wait = '30'":              `f:1: wait: 30 has no unit: write 30s for seconds`,
		"wait = 'soon'":            `f:1: wait: "soon" is not a time, such as 30s`,
		"# hello\nwait = '2h'":     `f:2: wait: 2h0m0s is not from 1s to 1h0m0s`,
		"bytes = -1":               `f:1: bytes: "-1" is not a number of bytes, such as`,
		"bytes = '1 kB'":           `f:1: bytes: 1024 is not from 10 to 100`,
		"bytes = '5 crowns'":       `f:1: bytes: "5 crowns" is not a number of bytes, such as`,
		"bytes = true":             `f:1: bytes: true: boolean, not integer`,
		"level = 'notice'":         `f:1: level: "notice" is not debug, info, warn or error; C tor's notice is info here`,
		"level = 'loud'":           `f:1: level: "loud" is not debug, info, warn or error`,
		"bytes = 5":                `f:1: bytes: 5 is not from 10 to 100`,
		"bytes = 0":                `f:1: bytes: 0 is not from 10 to 100`,
		"nodes = 1":                `f:1: nodes: integer, not a list of strings`,
		"nodes = ['a', 1]":         `f:1: nodes: entry 2: integer, not string`,
		"nodes = [\n'a',\n'bad']":  `f:1: nodes: entry 2: it is bad`,
		"nodes = 'bad'":            `f:1: nodes: it is bad`,
		"mode = 'maybe'":           `f:1: mode: "maybe" is none of`,
		"param = ['x']":            `f:1: param: "x" is not NAME=NUMBER`,
		"param.x = 'y'":            `f:1: param: x: string, not integer`,
		"param = {x = 4294967296}": `f:1: param: "x=4294967296" is not NAME=NUMBER, with a number of 32 bits`,
		"kind = 'xml'":             `f:1: kind: "xml" is not text or json`,
		"word = 'yes'":             `f:1: word: "yes" is not the-word`,
		"name = 1979-05-27":        `f:1: name: 1979-05-27`,
		"name = \"a\"\nkind = \"b": `f:2: `,
	} {
		s, c, err := bind(t, file)
		if err == nil {
			if !strings.HasPrefix(file, "bytes") {
				c.Bytes = 20
			}
			err = s.Explain(table.Check(c))
		}
		if !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
	// A mistake outside a file.
	s, c, err := bind(t, "bytes = 20\nguards = 3", "guards", "21")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Explain(table.Check(c)); err == nil || err.Error() != "--guards: 21 is not from 2 to 20" {
		t.Error(err)
	}
	if err := table.Check(c); err == nil || err.Error() != "Guards: 21 is not from 2 to 20" || ErrorOf(err).Field != "Guards" {
		t.Error("what a Go program hears:", err)
	}
	c.Guards, c.Mode = 3, 9
	if err := s.Explain(table.Check(c)); err == nil || err.Error() != "f: mode: the value 0x9 is none of its type's constants" {
		t.Error(err)
	}
	if err := s.Explain(fault.New(fault.Local, "no")); err.Error() != "no" || s.Explain(nil) != nil {
		t.Error("other errors change:", err)
	}
	for _, args := range [][]string{{"guards", "x"}, {"strict", "perhaps"}, {"bytes", "-1"}, {"wait", "1"}, {"param", "x"}, {"param", "=1"}, {"nodes", "\"a"}, {"mode", ""}} {
		if _, _, err := bind(t, "", args...); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestChanges: Changes separates the live options from the others.
func TestChanges(t *testing.T) {
	now, _, err := bind(t, "bytes = 20\nguards = 3", "name", "flag")
	if err != nil {
		t.Fatal(err)
	}
	c := new(config)
	again := Bind(Part{Table: table, Of: c})
	again.Again(now)
	if err := again.ReadFile("f", []byte("bytes = 30\nguards = 4\nname = 'file'\nnodes = ['z']\nparam = {a = 1}")); err != nil || c.Name != "flag" {
		t.Fatalf("%v, the name is %q", err, c.Name)
	}
	live, waiting := now.Changes(again)
	if !slices.Equal(live, []string{"guards", "nodes"}) || !slices.Equal(waiting, []string{"bytes", "param"}) {
		t.Errorf("%q %q", live, waiting)
	}
}

// TestFlagTypes: package pflag uses these types to show defaults and to complete.
func TestFlagTypes(t *testing.T) {
	s := Bind(Part{Table: table, Of: new(config)})
	want := map[string][2]string{
		"name": {"string", "nobody"}, "kind": {"string", "text"}, "word": {"string", ""}, "strict": {"bool", "false"}, "guards": {"int", "0"}, "bytes": {"uint64", "0"},
		"wait": {"text", ""}, "nodes": {"stringSlice", "[a,b]"}, "line": {"stringArray", ""}, "mode": {"text", "auto"}, "level": {"text", "INFO"}, "param": {"stringToInt", ""},
	}
	for _, v := range s.All() {
		if got := [2]string{v.Type(), v.String()}; got != want[v.Key] {
			t.Errorf("%s: %q, want %q", v.Key, got, want[v.Key])
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("name = 'x'\nguards = 3\nnodes = ['a']\nparam.a = 1\nwait = '5s'\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		c := new(config)
		s := Bind(Part{Table: table, Of: c})
		if err := s.ReadFile("f", doc); err != nil && !fault.Is(err, fault.Config) {
			t.Fatalf("kind of %v", err)
		}
		if err := s.Explain(table.Check(c)); err != nil && !fault.Is(err, fault.Config) {
			t.Fatalf("kind of %v", err)
		}
	})
}

// TestUnits: sizes and times have units, in flags and in files, with C tor's words too.
func TestUnits(t *testing.T) {
	for _, given := range []struct {
		file string
		args []string
	}{
		{"bytes = '80 bytes'\nwait = '2 minutes'", nil},
		{"", []string{"bytes", "640 bits", "wait", "2m"}},
		{"bytes = 80\nwait = '120s'", nil},
	} {
		s, c, err := bind(t, given.file, given.args...)
		if err == nil {
			err = s.Explain(table.Check(c))
		}
		if err != nil || c.Bytes != 80 || c.Wait != 2*time.Minute {
			t.Errorf("%+v: %d, %v, %v", given, c.Bytes, c.Wait, err)
		}
	}
}

// TestBounded: the least and the greatest value pass, and one more or less does not.
func TestBounded(t *testing.T) {
	show := func(n int64) any { return n }
	for _, c := range []struct {
		o    Option
		n    int64
		want string // a part of the error
	}{
		{Option{Bounds: Bounds{2, 20}}, 2, ""}, {Option{Bounds: Bounds{2, 20}}, 20, ""},
		{Option{Bounds: Bounds{2, 20}}, 1, "1 is not from 2 to 20"}, {Option{Bounds: Bounds{2, 20}}, 21, "21 is not from 2 to 20"},
		{Option{Bounds: Bounds{2, 20}}, 0, "0 is not from 2 to 20"}, {Option{Bounds: Bounds{2, 20}, Zero: "three"}, 0, ""},
		{Option{Bounds: Bounds{2, 20}, Zero: "three"}, 1, "1 is not from 2 to 20"},
		{Option{Bounds: Bounds{2, noLimit}}, 1, "1 is below 2, the least"}, {Option{Bounds: Bounds{2, noLimit}}, 2, ""}, {Option{Bounds: Bounds{2, noLimit}}, 1 << 40, ""},
		{Option{Bounds: Bounds{2, noLimit}}, noLimit + 1, "is not from 2 to"},
		{Option{}, -5, ""},
	} {
		err := c.o.bounded(c.n, show)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %d: %v", c.o.Bounds, c.n, err)
		}
	}
	for b, want := range map[Bounds]string{{}: `"x" is not a whole number`, {2, 20}: `"x" is not a whole number from 2 to 20`, {2, noLimit}: `"x" is not a whole number`} {
		o := Option{Bounds: b}
		if err := o.notNumber("x"); err == nil || err.Error() != want {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// TestWordFlags: a flag of one word and a flag of several take the words that they know.
func TestWordFlags(t *testing.T) {
	var one string
	w := Word{At: &one, Of: []string{"fast", "slow"}}
	if err := w.Set("slow"); err != nil || one != "slow" || w.String() != "slow" {
		t.Errorf("%v, %q, %q", err, one, w.String())
	}
	if err := w.Set("slwo"); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), `did you mean "slow"?`) || one != "slow" {
		t.Errorf("%v, %q", err, one)
	}
	if err := w.Set(""); !fault.Is(err, fault.Config) || strings.Contains(err.Error(), "mean") {
		t.Error(err)
	}
	if s := (Word{}).String(); s != "" {
		t.Errorf("of nothing: %q", s)
	}
	list := []string{"slow"}
	l := &WordList{At: &list, Of: []string{"fast", "slow"}}
	for _, s := range []string{"fast", "slow,fast"} {
		if err := l.Set(s); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"fast", "slow", "fast"}; !slices.Equal(list, want) {
		t.Errorf("%q: the first flag replaces the default, and others add to it", list)
	}
	if err := l.Set("fast,other"); !fault.Is(err, fault.Config) || len(list) != 3 {
		t.Errorf("%v, %q", err, list)
	}
	if s := (&WordList{}).String(); s != "" {
		t.Errorf("of nothing: %q", s)
	}
	b := &WordList{At: new([]string), Of: []string{"fast"}, Base: func(s string) string { base, _, _ := strings.Cut(s, "="); return base }}
	if err := b.Set("fast=3"); err != nil || !slices.Equal(*b.At, []string{"fast=3"}) {
		t.Errorf("a word with a value: %v, %q", err, *b.At)
	}
	if err := b.Set("slow=3"); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
