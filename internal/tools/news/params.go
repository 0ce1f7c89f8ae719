package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the tree that is searched for names of consensus parameters.
const (
	maxFiles  = 10000
	maxSource = 1 << 20
)

// parameter matches what looks like the name of a consensus parameter.
var parameter = regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*\b`)

// paramNews returns the consensus parameters that items of the changelog name, that are
// constants of the program, and that neither a Go file nor the page names. No list in the
// program tells which constants are parameters, so a parameter without an item is not seen.
func paramNews(releases []release, constants []string, known map[string]bool) (lines []string) {
	for _, r := range releases {
		if !told(r.version) {
			continue
		}
		for _, it := range r.items {
			if !strings.Contains(strings.ToLower(it.text), "consensus param") {
				continue
			}
			for _, name := range parameter.FindAllString(label.ReplaceAllString(it.text, ""), -1) {
				hasForm := strings.Contains(name, "_") || name[1:] != strings.ToLower(name[1:])
				if hasForm && name != strings.ToUpper(name) && !known[name] && slices.Contains(constants, name) {
					lines = append(lines, name+" ("+r.version+")")
				}
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// goStrings returns the words that stand between quotation marks in Go files below a
// directory, without tests and the project's own tools.
func goStrings(root string) (map[string]bool, error) {
	words, files := map[string]bool{}, 0
	return words, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "tools" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if files++; files > maxFiles {
			return fs.SkipAll
		}
		text, err := readFile(path, maxSource)
		for _, m := range quoted.FindAllSubmatch(text, -1) {
			words[string(m[1])] = true
		}
		return err
	})
}

var (
	quoted = regexp.MustCompile(`"([A-Za-z0-9_]+)"`)
	label  = regexp.MustCompile(`[a-z]+="[^"]*"`) // of a metric
)
