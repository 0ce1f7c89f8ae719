package experiment

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// The shipped files: twelve topologies of space, air and ground, each with three sets of links (h, c and s), two real
// orbits, circuits of one to eight hops, which are all that RELAY_EARLY allows, and one each with nodes of C tor and of both programs.
//
//go:embed shipped/*.toml
var shipped embed.FS

const (
	shippedDir = "shipped"
	ending     = ".toml"
)

// Sets are names that stand for the shipped experiments that begin so, with a number after it.
var Sets = []string{"h", "c", "s", "hops"}

// Shipped returns the names of the shipped experiments.
func Shipped() []string {
	entries, err := fs.ReadDir(shipped, shippedDir)
	if err != nil {
		panic(err) // it is in the program
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ending))
	}
	return out
}

// Find returns the experiments of a name: a file's, a shipped one's, or all of a set.
func Find(name string) ([]*File, error) {
	var names []string
	for _, s := range Shipped() {
		if s == name || slices.Contains(Sets, name) && strings.HasPrefix(s, name) && len(s) > len(name) && s[len(name)] >= '0' && s[len(name)] <= '9' {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		doc, err := readFile(name)
		if err != nil {
			if !strings.ContainsAny(name, "./") {
				return nil, fault.New(fault.Config, "no file and no shipped experiment has this name: %w", options.NotOneOf(name, slices.Concat(Sets, Shipped())))
			}
			return nil, err
		}
		f, err := Parse(name, doc)
		if err != nil {
			return nil, err
		}
		return []*File{f}, nil
	}
	var out []*File
	for _, s := range names {
		doc, err := ShippedText(s)
		if err != nil {
			return nil, err
		}
		f, err := Parse(s+ending, doc)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// ShippedText returns the text of a shipped experiment.
func ShippedText(name string) ([]byte, error) {
	doc, err := shipped.ReadFile(path.Join(shippedDir, name+ending))
	if err != nil {
		return nil, fault.New(fault.Config, "%w", options.NotOneOf(name, Shipped()))
	}
	return doc, nil
}

// Short is the name of the file without its folder and ending.
func (f *File) Short() string { return strings.TrimSuffix(path.Base(f.Name), ending) }
