package logline

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPeople: a line has the time of day, the level in a column of five, the message and the fields.
func TestPeople(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&people{w: &b}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, c := range []struct {
		log  func()
		want string
	}{
		{func() { log.Info("ready") }, "INFO  ready"},
		{func() { log.Error("two words", "err", errors.New("a: b c"), "n", 3) }, `ERROR two words  err="a: b c" n=3`},
		{func() { log.With("a b", "").WithGroup("g").Warn("w", "k", `say "x"`) }, `WARN  w  "a b"="" g.k="say \"x\""`},
		{func() { log.Debug("", "level", "x", "time", "y") }, `DEBUG   level=x time=y`},
		{func() { log.Info(`say "x" = y`, "last", "") }, `INFO  say "x" = y  last=""`},
	} {
		c.log()
		line := regexp.MustCompile(`^\d\d:\d\d:\d\d (.*)\n$`).FindStringSubmatch(b.String())
		if line == nil || line[1] != c.want {
			t.Errorf("%q, want the time and %q", b.String(), c.want)
		}
		b.Reset()
	}
}

// TestNothingSteers: what a peer chose cannot drive the terminal, with colours or without.
func TestNothingSteers(t *testing.T) {
	const bad = "x\x1b]0;title\a\r\n\u009b31m\u202e\x7f\xff"
	for _, colour := range []bool{false, true} {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&people{w: &b, colour: colour}, nil))
		log.Info(bad, bad, bad, "err", errors.New(bad), "group", slog.GroupValue(slog.String(bad, bad)))
		text, ended := strings.CutSuffix(b.String(), "\n")
		text = regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(text, "")
		if !ended || strings.ContainsAny(text, "\x1b\a\r\n\u009b\u202e\x7f") || strings.Contains(text, "\xff") {
			t.Errorf("%q", b.String())
		}
		if n := strings.Count(text, `title\a`); n != 6 {
			t.Errorf("%d of 6 texts are told: %q", n, text)
		}
	}
}

// TestColours: the level and the keys have one, and nothing else does.
func TestColours(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&people{w: &b, colour: true}, nil)).Warn("careful", "a", 1, "b", "c d")
	if want := " \x1b[33mWARN\x1b[0m  careful  \x1b[2ma=\x1b[0m1 \x1b[2mb=\x1b[0m\"c d\"\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q, want %q", b.String(), want)
	}
	for _, c := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"", "", true}, {"1", "xterm", false}, {"0", "xterm", false}, {"", "dumb", false}} {
		env := map[string]string{"NO_COLOR": c.noColor, "TERM": c.term}
		if got := wanted(func(k string) string { return env[k] }); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestElsewhere: what is no terminal gets slog's own text or JSON, and so do the others.
func TestElsewhere(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for format, want := range map[string]string{
		Auto: `^time=\S+T\S+ level=WARN msg="a b" k=v\n$`, Text: `^time=\S+T\S+ level=WARN msg="a b" k=v\n$`,
		JSON: `^{"time":"\S+","level":"WARN","msg":"a b","k":"v"}\n$`,
	} {
		var other bytes.Buffer
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		log := New(slog.LevelWarn, format, file, &other)
		log.Info("less grave")
		log.Warn("a b", "k", "v")
		text, err := os.ReadFile(file.Name())
		if err != nil || !regexp.MustCompile(want).Match(text) || !bytes.Equal(text, other.Bytes()) {
			t.Errorf("%s: %q and %q, %v", format, text, other.String(), err)
		}
	}
}
