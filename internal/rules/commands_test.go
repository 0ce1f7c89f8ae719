package rules

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/cli"
)

var (
	fence      = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	makeWord   = regexp.MustCompile(`(?:^|&& |; |sudo )make((?: [a-z][a-z0-9-]*)+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*)(?: [a-z0-9 -]*)?:`)
	goRun      = regexp.MustCompile(`\bgo run (?:-C (\S+) )?(\./\S+)`)
	testRun    = regexp.MustCompile(`-run '?"?([^'" ]+)`)
	testDir    = regexp.MustCompile(` (\.(?:/\S*)?)`)
	chiveWord  = regexp.MustCompile(`(?:^|&& |; |sudo |\$ )(?:go run \./cmd/chive|(?:\./)?(?:bin/)?chive) ([^#|;&>)]+)`)
	flagWord   = regexp.MustCompile(`^--([a-z0-9][a-z0-9-]*)`)
)

// shown is a line that a document shows, and the directory in which somebody is who types it.
type shown struct{ line, in string }

// commandLines returns what a document shows as commands: in a sentence, and in blocks.
func commandLines(text string) (all []shown) {
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		in := "."
		for line := range strings.SplitSeq(strings.ReplaceAll(m[1], "\\\n", " "), "\n") {
			line, in = enter(strings.TrimSpace(line), in)
			all = append(all, shown{line, in})
		}
	}
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			line, in := enter(strings.ReplaceAll(m[1], `\|`, "|"), ".")
			all = append(all, shown{line, in})
		}
	}
	return all
}

// enter takes a "cd DIR" from the front of a line.
func enter(line, in string) (rest, now string) {
	rest, found := strings.CutPrefix(line, "cd ")
	if !found {
		return line, in
	}
	dir, rest, _ := strings.Cut(rest, " ")
	return strings.TrimPrefix(rest, "&& "), path.Join(in, dir)
}

// TestDocumentedCommands: what the documents tell people to type exists: targets of make, programs,
// packages with such tests, commands of chive and their flags.
func TestDocumentedCommands(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		for name := range strings.FieldsSeq(m[0][:len(m[0])-1]) {
			targets[name] = true
		}
	}
	tests, chive := testsByDir(t), cli.Chive()
	chive.InitDefaultHelpCmd()
	seen := map[string]int{}
	for name, text := range documents(t) {
		if strings.HasPrefix(name, "changes/") {
			continue // what a change took away is told there, too
		}
		for _, s := range commandLines(text) {
			line, in := s.line, s.in
			for _, m := range makeWord.FindAllStringSubmatch(line, -1) {
				for target := range strings.FieldsSeq(m[1]) {
					seen["make"]++
					if !targets[target] {
						t.Errorf("%s: %q: the Makefile has no %s", name, line, target)
					}
				}
			}
			for _, m := range goRun.FindAllStringSubmatch(line, -1) {
				seen["go run"]++
				if files, _ := filepath.Glob(path.Join(in, m[1], m[2], "*.go")); len(files) == 0 {
					t.Errorf("%s: %q: there is no program", name, line)
				}
			}
			if _, args, found := strings.Cut(line, "go test"); found {
				if m := testRun.FindStringSubmatch(args); m != nil && !strings.Contains(args, "-bench ") {
					seen["go test"]++
					checkTestRun(t, name, line, in, m[1], testDir.FindAllStringSubmatch(args, -1), tests)
				}
			}
			for _, m := range chiveWord.FindAllStringSubmatch(line, -1) {
				seen["chive"]++
				checkChive(t, name, chive, strings.Fields(m[1]))
			}
		}
	}
	for what, least := range map[string]int{"make": 30, "go run": 10, "go test": 20, "chive": 50} {
		if seen[what] < least {
			t.Errorf("only %d commands with %s were found", seen[what], what)
		}
	}
}

// testsByDir returns the names of tests and benchmarks by the package's directory.
func testsByDir(t *testing.T) map[string][]string {
	out, err := exec.Command("git", "grep", "-oE", `^func (Test|Fuzz|Benchmark|Example)\w*`, "--", "*_test.go").Output()
	if err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED: this is no clone: ", err)
	}
	tests := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		file, name, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		tests[path.Dir(file)] = append(tests[path.Dir(file)], name)
	}
	return tests
}

// checkTestRun: a package, of those that a line of go test names, has a test that it asks for.
func checkTestRun(t *testing.T, name, line, in, pattern string, dirs [][]string, tests map[string][]string) {
	t.Helper()
	pattern, _, _ = strings.Cut(pattern, "/")
	run, err := regexp.Compile(pattern)
	if err != nil {
		return // a placeholder
	}
	for _, d := range dirs {
		dir, whole := strings.CutSuffix(path.Join(in, d[1]), "...")
		for at, have := range tests {
			if (at == dir || whole && strings.HasPrefix(at+"/", dir)) && slices.ContainsFunc(have, run.MatchString) {
				return
			}
		}
	}
	t.Errorf("%s: %q: no such test", name, line)
}

// lowWord is what the name of a command looks like.
var lowWord = regexp.MustCompile(`^[a-z]+$`)

// checkChive: words after chive are one of its commands, with flags that it has.
func checkChive(t *testing.T, name string, cmd *cobra.Command, words []string) {
	t.Helper()
	line := "chive " + strings.Join(words, " ")
	flags := false
	for _, w := range words {
		w = strings.Trim(w, `[]'",.:`)
		if w == "--" || cmd.DisableFlagParsing {
			return
		}
		if m := flagWord.FindStringSubmatch(w); m != nil {
			flags = true
			if m[1] != "help" && m[1] != "version" && cmd.Flags().Lookup(m[1]) == nil && cmd.InheritedFlags().Lookup(m[1]) == nil {
				t.Errorf("%s: %q: %s has no flag --%s", name, line, cmd.CommandPath(), m[1])
			}
		}
		if flags || !cmd.HasSubCommands() {
			continue // values, and arguments
		}
		next := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == w })
		switch {
		case next >= 0:
			cmd = cmd.Commands()[next]
		case w == "service" && !cmd.HasParent():
			return // on Windows only
		case lowWord.MatchString(w) && !strings.HasPrefix(name, "docs/spec/"): // there "chive pq ..." is in protocols
			t.Errorf("%s: %q: %s has no command %s", name, line, cmd.CommandPath(), w)
			return
		default:
			return // a placeholder
		}
	}
}
