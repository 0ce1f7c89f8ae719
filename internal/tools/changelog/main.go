// Command changelog moves the files of changes/ into a new section of CHANGELOG.md.
// See CONTRIBUTING.md, "Tell users".
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/tools/semver"
)

// kinds are the headings of a section, in their order (keepachangelog.com). The name of
// a file in changes/ ends in its kind, in lower case: pq-policy.added.md.
var kinds = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

// usual is the kind of a file that names none.
const usual = "Changed"

func main() {
	version := flag.String("version", "", "the release, such as v0.9.0")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "its `DAY`")
	dir := flag.String("dir", ".", "the repository's `DIR`")
	flag.Parse()
	if err := release(*dir, *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}

// release writes the section and removes the files that it was made of.
func release(dir, version, date string) error {
	names, err := filepath.Glob(filepath.Join(dir, "changes", "*.md"))
	if err != nil {
		return err
	}
	changes := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		changes[filepath.Base(name)] = string(text)
	}
	file := filepath.Join(dir, "CHANGELOG.md")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := add(string(old), version, date, changes)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// add returns a changelog with one more section, before the sections that it has.
func add(changelog, version, date string, changes map[string]string) (string, error) {
	if err := semver.Check(version); err != nil {
		return "", err
	}
	if strings.Contains(changelog, "\n## ["+version+"]") {
		return "", fmt.Errorf("CHANGELOG.md has %s already", version)
	}
	if len(changes) == 0 {
		return "", errors.New("changes/ has no files: nothing to release")
	}
	items := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		kind, err := kindOf(name)
		if err != nil {
			return "", err
		}
		text := strings.TrimSpace(changes[name])
		if text == "" || strings.HasPrefix(text, "#") {
			return "", fmt.Errorf("changes/%s: want text without a heading", name)
		}
		items[kind] = append(items[kind], "- "+strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n  "), "\n  \n", "\n\n"))
	}
	var section strings.Builder
	fmt.Fprintf(&section, "## [%s] - %s\n\n", version, date)
	for _, kind := range kinds {
		if len(items[kind]) > 0 {
			fmt.Fprintf(&section, "### %s\n\n%s\n\n", kind, strings.Join(items[kind], "\n"))
		}
	}
	head, rest, found := strings.Cut(changelog, "\n## [")
	if found {
		rest = "## [" + rest
	}
	return strings.TrimRight(head, "\n") + "\n\n" + strings.TrimRight(section.String()+rest, "\n") + "\n", nil
}

// kindOf returns the heading that a file's name asks for.
func kindOf(name string) (string, error) {
	_, end, _ := strings.Cut(strings.TrimSuffix(name, ".md"), ".")
	end = cmp.Or(end, strings.ToLower(usual))
	for _, kind := range kinds {
		if strings.ToLower(kind) == end {
			return kind, nil
		}
	}
	return "", fmt.Errorf("changes/%s: %q is none of %s", name, end, strings.ToLower(strings.Join(kinds, ", ")))
}
