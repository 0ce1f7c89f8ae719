// Package command has what the command lines of all programs share: how a mistake in them is
// told, and what a shell completes.
package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/quantity"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Prepare makes a program's command line strict, and has shells complete it. Call it on the
// root, once all commands are there.
func Prepare(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(flagMistake)
	strict(root)
	complete(root)
}

// Complain writes an error. A part of it may be a server's text, which must not steer a
// terminal.
func Complain(w io.Writer, program string, err error) {
	fmt.Fprintln(w, progress.PrintableLines(program+": "+err.Error()))
}

// flagMistake says what a flag's value can be, and names, for an unknown flag, the one that was
// probably meant.
func flagMistake(c *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fault.New(fault.Config, "--%s: %w", wrong.GetFlag().Name, whyWrong(wrong))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		var flags []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				flags = append(flags, f.Name)
			}
		})
		if near := tomlfile.Nearest(unknown.GetSpecifiedName(), flags); near != "" {
			return fault.New(fault.Config, "%w; did you mean --%s?", err, near)
		}
		return fault.New(fault.Config, "%w; \"%s --help\" lists them", err, c.CommandPath())
	}
	if none, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := none.GetFlag()
		name, _ := pflag.UnquoteUsage(f)
		return fault.New(fault.Config, "--%s needs a value: --%s %s", f.Name, f.Name, name)
	}
	return fault.Wrap(fault.Config, err)
}

// whyWrong says what the value of a flag can be. Flags of package pflag's own types would tell
// how Go failed to read it.
func whyWrong(e *pflag.InvalidValueError) error {
	_, ours := e.GetFlag().Value.(interface{ Words() []string })
	kind, list := strings.CutSuffix(e.GetFlag().Value.Type(), "Slice")
	what := map[string]string{
		"bool": "true or false", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not below 0",
		"uint16": "a number from 0 to 65535", "float64": "a number",
	}[kind]
	switch {
	case ours:
	case kind == "duration":
		if _, why := quantity.Duration(e.GetValue()); why != nil {
			return why
		}
	case list && what != "":
		return fmt.Errorf("%q is not whole numbers between commas", e.GetValue())
	case what != "":
		return fmt.Errorf("%q is not %s", e.GetValue(), what)
	}
	return e.Unwrap()
}

// strict gives mistakes in arguments their kind of error, and makes an unknown
// subcommand an error: cobra would show help, and succeed.
func strict(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strict(sub)
	}
	c.SuggestionsMinimumDistance = 2
	if c.Runnable() {
		if check := c.Args; check != nil {
			c.Args = func(c *cobra.Command, args []string) error {
				if check(c, args) == nil {
					return nil
				}
				return wrongArguments(c, args)
			}
		}
		return
	}
	c.Args = cobra.ArbitraryArgs
	c.DisableFlagsInUseLine = true
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknown(c, args[0])
	}
}

// wrongArguments says what a command's arguments are, when those given are too few or too many.
func wrongArguments(c *cobra.Command, args []string) error {
	_, want, some := strings.Cut(c.Use, " ")
	switch {
	case c.HasAvailableSubCommands():
		return unknown(c, args[0])
	case !some || strings.HasPrefix(want, "-"):
		return fault.New(fault.Config, "\"%s\" takes flags only, and %q is none", c.CommandPath(), args[0])
	}
	if names := strings.Fields(want); len(args) < len(names) {
		return fault.New(fault.Config, "write \"%s %s\": %s is missing", c.CommandPath(), want, strings.TrimSuffix(names[len(args)], "..."))
	}
	return fault.New(fault.Config, "write \"%s %s\": %q is too much", c.CommandPath(), want, args[len(args)-1])
}

// unknown is the error for a word that is no command.
func unknown(c *cobra.Command, word string) error {
	near := ""
	if s := c.SuggestionsFor(word); len(s) > 0 {
		near = s[0]
	} else {
		var names []string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		near = tomlfile.Nearest(word, slices.Sorted(slices.Values(names)))
	}
	if near != "" {
		return fault.New(fault.Config, "unknown command %q for %q; did you mean %q?", word, c.CommandPath(), near)
	}
	return fault.New(fault.Config, "unknown command %q for %q; \"%s --help\" lists them", word, c.CommandPath(), c.CommandPath())
}
