package rules

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the text of each Markdown file of the repository by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "changes/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.ToSlash(name)] = string(text)
		}
	}
	return all
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	quoted   = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks follows the links between documents, to their sections too, and looks for
// pages of docs/ to which no other document links.
func TestLinks(t *testing.T) {
	docs := documents(t)
	seen, linked := 0, map[string]bool{}
	for name, text := range docs {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			file, section, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			linked[to] = linked[to] || to != name
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if section != "" && !hasSection(docs[to], section) {
				t.Errorf("%s links to %s, which has no such section", name, m[1])
			}
		}
	}
	for name := range docs {
		if strings.HasPrefix(name, "docs/") && !linked[name] {
			t.Errorf("no document links to %s", name)
		}
	}
	if seen < 20 {
		t.Errorf("only %d links were found", seen)
	}
}

// hasSection reports whether a document has a heading with this anchor, in GitHub's form.
func hasSection(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(strings.ToLower(notSlug.ReplaceAllString(m[1], "")), " ", "-")
		if slug == anchor {
			return true
		}
	}
	return false
}

// TestPromisesHaveTests looks for the tests that the documents name, in the
// package whose name stands before the test's, if there is one.
func TestPromisesHaveTests(t *testing.T) {
	out, err := exec.Command("git", "grep", "-oE", `^func (Test|Fuzz)\w+`, "--", "*_test.go").Output()
	if err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED: this is no clone: ", err)
	}
	have := map[string]bool{} // "internal/cell TestX", and "TestX"
	for line := range strings.Lines(string(out)) {
		file, name, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		have[name], have[path.Dir(file)+" "+name] = true, true
	}
	seen := 0
	for name, text := range documents(t) {
		for line := range strings.Lines(text) {
			pkg := ""
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				word := m[1]
				if i, err := os.Stat(word); err == nil && i.IsDir() && !strings.HasSuffix(word, "/") {
					pkg = word + " "
				}
				if !testName.MatchString(word) {
					continue
				}
				seen++
				if !have[pkg+word] {
					t.Errorf("%s names %s%s, which is no test here", name, pkg, word)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d tests were found", seen)
	}
}
