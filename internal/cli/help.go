package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/options"
)

// groupFlags makes --help show flags under the headings of their groups. It does
// not use cobra's templates: with them the linker keeps every exported method,
// which makes the program 2 MB larger.
//
// An error of writing the help goes to the context's value for helpKey: a help function
// returns none.
func groupFlags(root *cobra.Command) {
	plain := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var b bytes.Buffer
		out := c.OutOrStdout()
		c.SetOut(&b)
		plain(c, args)
		c.SetOut(out)
		_, err := out.Write(b.Bytes())
		if ctx := root.Context(); ctx != nil { // it runs
			if lost, ok := ctx.Value(helpKey{}).(*error); ok {
				*lost = err
			}
		}
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStderr(), usage(c))
		return err
	})
}

// helpKey is the key of a context's *error.
type helpKey struct{}

// usage returns the usage of a command: its arguments, its commands and its
// flags.
func usage(c *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() && !c.DisableFlagsInUseLine { // a parent that only shows this has it set: see strict
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\nFlags:\n" + strings.TrimRight(flagsByGroup(c.LocalFlags()), "\n"))
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString("\n\nGlobal Flags:\n" + strings.TrimRight(c.InheritedFlags().FlagUsages(), "\n"))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.", c.CommandPath())
	}
	return b.String() + "\n"
}

// flagsByGroup describes flags, those without a group first.
func flagsByGroup(fs *pflag.FlagSet) string {
	titles := []string{""}
	groups := map[string]*pflag.FlagSet{"": pflag.NewFlagSet("", pflag.ContinueOnError)}
	fs.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		title := ""
		if v, ok := f.Value.(*options.Value); ok {
			title = v.Group
		}
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups[title].SortFlags = false
			titles = append(titles, title)
		}
		groups[title].AddFlag(f)
	})
	var b strings.Builder
	for _, title := range titles {
		if title != "" {
			b.WriteString("\n" + title + ":\n")
		}
		b.WriteString(groups[title].FlagUsages())
	}
	return b.String()
}
