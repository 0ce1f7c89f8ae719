package ctlwire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// exchanges returns what C tor was asked, and the lines of its answer to each.
func exchanges(t testing.TB) (commands []string, answers map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	commands = strings.Split(strings.TrimSpace(string(text)), "\n")
	if text, err = os.ReadFile("testdata/replies.txt"); err != nil {
		t.Fatal(err)
	}
	answers = map[string][]string{}
	asked := ""
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSuffix(l, "\n")
		if c, ok := strings.CutPrefix(l, ">> "); ok {
			asked = c
		} else if l != "" {
			answers[asked] = append(answers[asked], l)
		}
	}
	if len(commands) < 50 || len(answers) < 50 {
		t.Fatalf("only %d commands and %d answers", len(commands), len(answers))
	}
	return commands, answers
}

// TestCommandsOfTor: commands that C tor took are read, however the stream is cut.
func TestCommandsOfTor(t *testing.T) {
	commands, _ := exchanges(t)
	for _, end := range []string{"\r\n", "\n"} {
		r := NewReader(oneByte{strings.NewReader(strings.Join(commands, end) + end)}, MaxCommand)
		for _, want := range commands {
			c, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(c.Sent + " " + c.Args); got != strings.TrimSpace(want) || c.Data != nil || LooksLikeHTTP(c) {
				t.Errorf("%+v for %q", c, want)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Error(err)
		}
	}
}

// oneByte reads one byte at a time.
type oneByte struct{ io.Reader }

func (o oneByte) Read(b []byte) (int, error) {
	if len(b) > 1 {
		b = b[:1]
	}
	return o.Reader.Read(b)
}

// TestRepliesOfTor: the lines of C tor's replies are written as it writes them.
func TestRepliesOfTor(t *testing.T) {
	_, answers := exchanges(t)
	for _, lines := range answers {
		data := false
		for _, l := range lines {
			var got []byte
			var err error
			switch {
			case data && l == ".":
				got, data = AppendDataEnd(nil), false
			case data:
				got, err = AppendDataLine(nil, strings.TrimPrefix(l, "."))
			default:
				code := 0
				for _, c := range l[:3] {
					code = code*10 + int(c-'0')
				}
				data = l[3] == Data
				got, err = AppendLine(nil, code, l[3], l[4:])
			}
			if err != nil || string(got) != l+"\r\n" {
				t.Errorf("%q for %q: %v", got, l, err)
			}
		}
	}
}

func TestData(t *testing.T) {
	r := NewReader(strings.NewReader("+loadconf  a b \r\nA 1\r\n..x\n.y\r\n\r\n.\r\nquit\n+X\n.\n+X\nno end\n"), 100)
	for _, want := range []Command{
		{"LOADCONF", "a b", []byte("A 1\n.x\ny\n\n"), "loadconf"}, {"QUIT", "", nil, "quit"}, {"X", "", []byte{}, "X"},
	} {
		if c, err := r.Next(); err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if _, err := NewReader(strings.NewReader("GETINFO"), 100).Next(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}

// endless is a stream without an end of a line, which counts what was read.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	e.read += len(b)
	return len(b), nil
}

// TestTooLong: a line, and a command with its data, are bounded, and no more is read than is needed to see it.
func TestTooLong(t *testing.T) {
	const limit = 10_000
	in := new(endless)
	if _, err := NewReader(in, limit).Next(); !errors.Is(err, ErrTooLong) || in.read > limit+4096 {
		t.Error(err, in.read)
	}
	full := "+X\n" + strings.Repeat("12345678\n", limit)
	if _, err := NewReader(strings.NewReader(full), limit).Next(); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	r := NewReader(strings.NewReader(strings.Repeat("a", limit-1)+"\n"+strings.Repeat("a", limit)+"\n"), limit)
	if c, err := r.Next(); err != nil || len(c.Sent) != limit-1 {
		t.Error(len(c.Sent), err)
	}
	if _, err := r.Next(); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	r.Limit(2 * limit)
	if c, err := NewReader(strings.NewReader(strings.Repeat("a", limit)+"\n"), 2*limit).Next(); err != nil || len(c.Sent) != limit {
		t.Error(err)
	}
}

// TestKeywords: C tor 0.4.9.11 reads these so; those without an answer it refuses.
func TestKeywords(t *testing.T) {
	value := func(key, v string) []Keyword { return []Keyword{{Key: key, Value: v, HasValue: true}} }
	quoted := func(key, v string) []Keyword { return []Keyword{{Key: key, Value: v, Quoted: true, HasValue: true}} }
	for _, c := range []struct {
		in     string
		syntax Syntax
		want   []Keyword
		wrong  bool
	}{
		{"", 0, nil, false},
		{"  A=b  ", 0, value("A", "b"), false},
		{"A=", 0, value("A", ""), false},
		{"A", 0, nil, true},
		{"A", ValueOptional, []Keyword{{Key: "A"}}, false},
		{"A", KeyOptional, value("", "A"), false},
		{"=b", 0, nil, true},
		{`A="b c"`, 0, quoted("A", "b c"), false},
		{`A="b\"c\\\n"`, 0, quoted("A", `b"c\n`), false},
		{`A="b\"c\\\n\t\r\101\x41'"`, CString, quoted("A", "b\"c\\\n\t\rAA'"), false},
		{`A="b`, 0, nil, true},
		{`A="b\`, 0, nil, true},
		{`A="b\`, CString, nil, true},
		{`A="b"c`, 0, nil, true},
		{`A="\q"`, CString, nil, true},
		{`A="\0"`, CString, nil, true},
		{`A="\400"`, CString, nil, true},
		{`A="\x4"`, CString, nil, true},
		{`"a b"`, KeyOptional, quoted("", "a b"), false},
		{`"a=b"`, KeyOptional, quoted("", "a=b"), false},
		{`"a"`, ValueOptional, nil, true},
		{`A=b=c`, 0, value("A", "b=c"), false},
		{"A=b B C=d", ValueOptional, []Keyword{{"A", "b", false, true}, {Key: "B"}, {"C", "d", false, true}}, false},
	} {
		got, err := Keywords(c.in, c.syntax)
		if (err != nil) != c.wrong || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v; want %+v", c.in, got, err, c.want)
		}
	}
}

// TestQuote: a quoted text is one line, and is read as what it was.
func TestQuote(t *testing.T) {
	every := ""
	for c := 1; c < 256; c++ {
		every += string([]byte{byte(c)})
	}
	q := Quote(every)
	if strings.ContainsAny(q, "\r\n") {
		t.Errorf("%q", q)
	}
	if got, err := Keywords("A="+q, CString); err != nil || len(got) != 1 || got[0].Value != every {
		t.Error(got, err)
	}
}

// TestOneLineOnly: no text of others makes two lines.
func TestOneLineOnly(t *testing.T) {
	for _, bad := range []string{"a\nb", "a\r", "\x00"} {
		if b, err := AppendLine(nil, OK, End, bad); err == nil || len(b) > 0 {
			t.Errorf("%q", b)
		}
		if b, err := AppendDataLine(nil, bad); err == nil || len(b) > 0 {
			t.Errorf("%q", b)
		}
		if _, err := AppendLine(nil, OK, End, OneLine(bad)); err != nil {
			t.Error(err)
		}
	}
	for _, code := range []int{0, 99, 1000, -250} {
		if _, err := AppendLine(nil, code, End, ""); err == nil {
			t.Error(code)
		}
	}
	if _, err := AppendLine(nil, OK, End, strings.Repeat("a", maxLine+1)); err == nil {
		t.Error("a line without end")
	}
	if b, err := AppendDataLine(nil, ".x"); err != nil || string(b) != "..x\r\n" {
		t.Errorf("%q %v", b, err)
	}
	if err := Errorf(Unknown, "no %s", "x"); err.Error() != "552 no x" {
		t.Error(err)
	}
}

func TestLooksLikeHTTP(t *testing.T) {
	for line, want := range map[string]bool{
		"POST / HTTP/1.1": true, "GET /": true, "connect x:1 HTTP/1.0": true, "XYZ / HTTP/1.1": true, "PROTOCOLINFO 1": false, `AUTHENTICATE "x"`: false, "GETINFO version": false,
	} {
		c, err := NewReader(strings.NewReader(line+"\r\n"), 100).Next()
		if err != nil || LooksLikeHTTP(c) != want {
			t.Error(line, err)
		}
	}
}

// FuzzReader: commands have a bound, and what was read is written and read again as the same.
func FuzzReader(f *testing.F) {
	commands, _ := exchanges(f)
	f.Add([]byte(strings.Join(commands, "\r\n")))
	f.Add([]byte("+LOADCONF\r\nA 1\r\n..\r\n.\r\nQUIT\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 4096
		r := NewReader(bytes.NewReader(in), limit)
		for {
			c, err := r.Next()
			if err != nil {
				return
			}
			if n := len(c.Sent) + len(c.Args) + len(c.Data); n > limit {
				t.Fatalf("%d bytes", n)
			}
			LooksLikeHTTP(c)
			for s := range Syntax(8) {
				if list, err := Keywords(c.Args, s); err == nil {
					for _, k := range list {
						again, err := Keywords("X="+Quote(k.Value), CString)
						if strings.Contains(k.Value, "\x00") {
							continue
						}
						if err != nil || again[0].Value != k.Value {
							t.Fatalf("%q: %v", k.Value, err)
						}
					}
				}
			}
			out := []byte(c.Sent + " " + c.Args + "\n")
			if c.Data != nil {
				out = append([]byte("+"), out...)
				for l := range strings.Lines(string(c.Data)) {
					if out, err = AppendDataLine(out, strings.TrimSuffix(l, "\n")); err != nil {
						return // a lone "\r" or NUL within a line
					}
				}
				out = AppendDataEnd(out)
			}
			again, err := NewReader(bytes.NewReader(out), 4*limit).Next()
			if strings.HasPrefix(c.Sent, "+") {
				continue
			}
			if err != nil || again.Sent != c.Sent || again.Args != c.Args || !bytes.Equal(again.Data, c.Data) {
				t.Fatalf("%+v, then %+v: %v", c, again, err)
			}
		}
	})
}
