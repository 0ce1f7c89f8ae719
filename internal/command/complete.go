package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// extensions are those of files that a flag, by its name, reads; others may have any name.
var extensions = map[string][]string{"config": {"toml"}, "network": {"toml"}, "definitions": {"json"}, "genesis": {"json"}}

// complete has shells complete the values of flags and the arguments of a command and of those
// below it. What a value is, the flag tells: its words, or the name that its help gives it.
func complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(sub)
	}
	each := func(f *pflag.Flag) {
		if do := completion(f); do != nil {
			// The error is of a flag that has a completion already.
			_ = c.RegisterFlagCompletionFunc(f.Name, do)
		}
	}
	c.LocalNonPersistentFlags().VisitAll(each)
	c.PersistentFlags().VisitAll(each)
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
		c.ValidArgsFunction = arguments(strings.Fields(c.Use)[1:])
	}
}

// completion returns what completes the value of a flag; nil: what the shell does by itself.
func completion(f *pflag.Flag) cobra.CompletionFunc {
	name, _ := pflag.UnquoteUsage(f)
	list := strings.HasSuffix(f.Value.Type(), "Slice")
	w, _ := f.Value.(interface{ Words() []string })
	switch {
	case f.Value.Type() == "bool":
		return nil
	case w != nil && len(w.Words()) > 0:
		return words(w.Words(), list)
	case name == "RELAYS":
		return words(countries(), list)
	case strings.Contains(name, "DIR"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case extensions[f.Name] != nil:
		return cobra.FixedCompletions(extensions[f.Name], cobra.ShellCompDirectiveFilterFileExt)
	case isFile(name):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

// isFile reports whether a value with this name is a file that may have any name.
func isFile(name string) bool {
	return slices.Contains([]string{"FILE", "PATH", "SOCKET", "TORRC", "CMD"}, name)
}

// words completes one of some words, or in a list the last of them.
func words(all []string, list bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := ""
		if list {
			before = typed[:strings.LastIndexByte(typed, ',')+1]
		}
		out := make([]string, len(all))
		for i, w := range all {
			out[i] = before + w
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// arguments completes a command's arguments by what its usage calls them: "import TORRC".
func arguments(names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) < len(names) {
			switch name := strings.Trim(names[len(args)], "[]."); {
			case name == "DIR":
				return nil, cobra.ShellCompDirectiveFilterDirs
			case isFile(name), name == "flags", name == "--":
				return nil, cobra.ShellCompDirectiveDefault
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
