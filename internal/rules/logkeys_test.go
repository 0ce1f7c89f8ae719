package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logKey is the form of a log line's keys. An error's key is err.
var logKey = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// TestLogKeys checks that the keys of log lines have one form, because operators
// search for them.
func TestLogKeys(t *testing.T) {
	calls := 0
	for _, p := range listed(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			n, wrong := logKeys(f)
			calls += n
			for _, w := range wrong {
				t.Errorf("%s:%d: %s", name, fset.Position(w.pos).Line, w.what)
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d log lines were found", calls)
	}
}

// logKeys returns how many log lines a file has, and which keys are wrong.
func logKeys(f *ast.File) (calls int, wrong []launch) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		message := slices.Index([]string{"Debug", "Info", "Warn", "Error"}, sel.Sel.Name)
		if message < 0 || len(call.Args) < 1 || text(call.Args[0]) == "" {
			return true
		}
		calls++
		for i := 1; i+1 < len(call.Args); i += 2 {
			key := text(call.Args[i])
			switch value, ok := call.Args[i+1].(*ast.Ident); {
			case key == "":
				return true // an attribute, or a list of them
			case !logKey.MatchString(key), key == "error":
				wrong = append(wrong, launch{call.Args[i].Pos(), sel.Sel.Name, fmt.Sprintf("the key %q of a log line: an error's is err, others are words in lower case", key)})
			case ok && value.Name == "err" && key != "err":
				wrong = append(wrong, launch{call.Args[i].Pos(), sel.Sel.Name, fmt.Sprintf("an error has the key %q, not err", key)})
			}
		}
		return true
	})
	return calls, wrong
}

// text returns the text of a string literal, or "" for any other expression.
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

// TestLogKeysCanFail shows that the check can fail.
func TestLogKeysCanFail(t *testing.T) {
	const src = `package p
func f() {
	log.Warn("a", "error", x)
	log.Info("b", "n", 1, "cause", err)
	log.Debug("c", "Two words", 2)
	log.Error("d", "n", 1, "err", err)
	other.Error(err)
}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls, wrong := logKeys(f)
	var lines []int
	for _, w := range wrong {
		lines = append(lines, fset.Position(w.pos).Line)
	}
	if calls != 4 || !slices.Equal(lines, []int{3, 4, 5}) {
		t.Errorf("%d log lines, wrong: %v", calls, lines)
	}
}

// logWriters are the packages that may choose how a line of the log looks, with the reason.
// Others ask logline, so that every program writes for people on a terminal and for programs
// elsewhere.
var logWriters = map[string]string{
	"internal/logline":           "it is what this test is about",
	"internal/lab/ctortest":      "for tests",
	"internal/panics/panicstest": "for tests",
}

// TestOneLog: in all modules, only logline makes what writes the log.
func TestOneLog(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("slog.NewTextHandler(")) && !bytes.Contains(text, []byte("slog.NewJSONHandler(")) {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if used[dir] = true; logWriters[dir] == "" {
			t.Errorf("%s makes a handler of its own for the log: ask internal/logline", path)
		}
		return nil
	})
	if err != nil || len(used) != len(logWriters) {
		t.Errorf("%v: of %v only %v have a handler", err, logWriters, used)
	}
}
