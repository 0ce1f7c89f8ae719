package commandtest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Run runs a program's command line in this process, with a context that has ended: what would
// run until it is told to stop ends at once. The context lasts for the commands that end by
// themselves, as it may end them before they have found a mistake.
func Run(t *testing.T, root *cobra.Command, args ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if len(args) == 0 || !ends[args[0]] {
		cancel()
	}
	var b bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&b)
	root.SetErr(&b)
	err = root.ExecuteContext(ctx)
	return b.String(), err
}

var ends = map[string]bool{"config": true, "keys": true, "network": true, "status": true, "newnym": true}

// Each calls f for each command that --help shows and that does something, with its path below
// the root.
func Each(root *cobra.Command, f func(c *cobra.Command, path []string)) {
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		if c.HasParent() {
			path = append(path[:len(path):len(path)], c.Name())
			f(c, path)
		}
		for _, sub := range c.Commands() {
			walk(sub, path)
		}
	}
	walk(root, nil)
}

// Flags calls f for each flag of a command, with what its help calls the value.
func Flags(c *cobra.Command, f func(fl *pflag.Flag, value string)) {
	c.InheritedFlags() // which merges them in
	c.Flags().VisitAll(func(fl *pflag.Flag) {
		if fl.Hidden || fl.Name == "help" {
			return
		}
		name, _ := pflag.UnquoteUsage(fl)
		f(fl, name)
	})
}

// wordsOf returns the words that a flag can have, if they are few.
func wordsOf(f *pflag.Flag) []string {
	if w, ok := f.Value.(interface{ Words() []string }); ok {
		return w.Words()
	}
	return nil
}

// choice are names of values that mean one of a few words.
var choice = map[string]bool{"MODE": true, "TYPE": true, "LEVEL": true, "POLICY": true, "PROTOCOL": true, "KIND": true, "KINDS": true, "WAY": true, "PROGRAM": true, "SCHEDULERS": true}

// Words checks, for each flag of each command whose value is one of a few words, that the error
// for another word lists all of them, that one with a slip of the finger suggests the right one,
// and that a shell completes them. It fails if there are fewer than least such flags.
func Words(t *testing.T, root func(args ...string) *cobra.Command, least int) {
	t.Helper()
	found := 0
	Each(root(), func(c *cobra.Command, path []string) {
		Flags(c, func(f *pflag.Flag, value string) {
			words, at := wordsOf(f), strings.Join(path, " ")+" --"+f.Name
			if choice[value] && len(words) == 0 {
				t.Errorf("%s %s: it has a few words, and does not list them (options.Word)", at, value)
			}
			if len(words) == 0 {
				return
			}
			found++
			_, err := Run(t, root(path...), append(path, "--"+f.Name, "qqqqqqqq")...)
			if err == nil {
				t.Errorf("%s qqqqqqqq: no error", at)
				return
			}
			for _, w := range words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s qqqqqqqq: %v: it does not list %s", at, err, w)
				}
			}
			for _, w := range Rough(err.Error(), f.Name, "qqqqqqqq") {
				t.Errorf("%s qqqqqqqq: %v: %s", at, err, w)
			}
			longest := words[0]
			for _, w := range words {
				if len(w) > len(longest) {
					longest = w
				}
			}
			if len(longest) > 3 {
				_, err = Run(t, root(path...), append(path, "--"+f.Name, longest[:1]+longest[2:])...)
				if err == nil || !strings.HasSuffix(err.Error(), `did you mean "`+longest+`"?`) {
					t.Errorf("%s %s: %v: it does not suggest %s", at, longest[:1]+longest[2:], err, longest)
				}
			}
		})
	})
	if found < least {
		t.Errorf("only %d flags with few words were found", found)
	}
}

// Completion checks that a shell completes each flag of each command: words, files, directories,
// or nothing, as its value's name in the help says. It returns how many flags there are of each
// kind.
func Completion(t *testing.T, root func(args ...string) *cobra.Command) map[string]int {
	t.Helper()
	count := map[string]int{}
	Each(root(), func(c *cobra.Command, path []string) {
		Flags(c, func(f *pflag.Flag, value string) {
			at := strings.Join(path, " ") + " --" + f.Name
			kind, _ := f.Value.(interface{ Words() []string })
			if f.Value.Type() == "bool" {
				return
			}
			out, err := Run(t, root(path...), append(append([]string{cobra.ShellCompNoDescRequestCmd}, path...), "--"+f.Name, "")...)
			lines := strings.Split(out, "\n")
			directive := ""
			var offered []string
			for _, l := range lines {
				if d, ok := strings.CutPrefix(l, ":"); ok && directive == "" {
					directive = d
				} else if directive == "" {
					offered = append(offered, l)
				}
			}
			// The directives of cobra's scripts: 0 files, 4 nothing more, 8 files with an extension, 16 directories.
			want, what := "4", "nothing"
			switch {
			case kind != nil && len(kind.Words()) > 0:
				want, what = "4", "words"
				if strings.Join(offered, " ") != strings.Join(kind.Words(), " ") {
					t.Errorf("%s: %q are offered, want %q", at, offered, kind.Words())
				}
			case value == "RELAYS":
				what = "countries"
				if len(offered) < 200 || !strings.HasPrefix(offered[0], "{") {
					t.Errorf("%s: %d countries are offered", at, len(offered))
				}
			case strings.Contains(value, "DIR"):
				want, what = "16", "directories"
			case f.Name == "config", f.Name == "network" && value == "FILE", f.Name == "definitions", f.Name == "genesis":
				want, what = "8", "extensions"
				if len(offered) != 1 || offered[0] != "toml" && offered[0] != "json" {
					t.Errorf("%s: files with the extensions %q", at, offered)
				}
			case value == "FILE", value == "PATH", value == "SOCKET", value == "NETWORK":
				want, what = "0", "files"
			}
			count[what]++
			if err != nil || directive != want {
				t.Errorf("%s %s: directive %q, want %s for %s; %v", at, value, directive, want, what, err)
			}
		})
	})
	return count
}
