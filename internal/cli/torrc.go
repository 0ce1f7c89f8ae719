package cli

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/torrc"
)

// importRole is a program whose file chive config import writes.
type importRole struct {
	name     string
	role     torrc.Role
	settings func() *daemon.Settings
}

// importRoles are the programs whose files chive config import writes.
var importRoles = []importRole{
	{"proxy", torrc.Proxy, daemon.NewProxySettings},
	{"relay", torrc.Relay, daemon.NewRelaySettings},
	{"authority", torrc.Authority, daemon.NewAuthoritySettings},
}

func importCommand() *cobra.Command {
	var name, file string
	var strict bool
	c := &cobra.Command{
		Use:   "import TORRC",
		Short: "Print a configuration file made from a C tor configuration",
		Long: "Print a configuration file made from a C tor configuration. Each line of it becomes a setting, with the line\n" +
			"in a comment, or a comment that says why there is no setting. Standard error names the lines that are lost, those\n" +
			"that limit or protect something last and by themselves. A torrc may describe several of Chive's programs: a line\n" +
			"on standard error names them.\n\n" +
			"Exit codes: 0 every line has its setting, or needs none; 4 the file is written, and lines are left out or\n" +
			"changed; 2 there is a mistake, or a line would be lost and --strict is given: then nothing is written.",
		Example: "  chive config import --out chive.toml /etc/tor/torrc\n  chive config import --role relay --strict --out relay.toml /etc/tor/torrc",
		Args:    cobra.ExactArgs(1),
	}
	var roles []string
	for _, r := range importRoles {
		roles = append(roles, r.name)
	}
	c.Flags().Var(options.Word{At: &name, Of: roles}, "role", "`PROGRAM` whose file is wanted: proxy, relay or authority (default: the first of authority, relay and proxy that the torrc describes)")
	c.Flags().StringVar(&file, "out", "", "`FILE` to write, which other users can read if they can read the torrc (default: standard output)")
	c.Flags().BoolVar(&strict, "strict", false, "write nothing if a line would be lost")
	c.RunE = func(c *cobra.Command, args []string) error {
		var lines []torrc.Line
		var mode os.FileMode
		if err := interruptible(c.Context(), func() (err error) {
			lines, mode, err = daemon.ReadTorrc(args[0])
			return err
		}); err != nil {
			return err
		}
		has := torrc.Roles(lines)
		i := slices.IndexFunc(importRoles, func(r importRole) bool { return r.name == name })
		for j := len(importRoles) - 1; name == "" && i < 0; j-- {
			if has&importRoles[j].role != 0 {
				i = j
			}
		}
		doc, err := torrc.Translate(lines, importRoles[i].role)
		if err == nil {
			err = daemon.AtHome(doc)
		}
		if err != nil {
			return err
		}
		text, lost := imported(doc, importRoles[i], has, args[0])
		lost.tell(c.ErrOrStderr(), args[0])
		for j, r := range importRoles {
			if j != i && has&r.role != 0 {
				fmt.Fprintf(c.ErrOrStderr(), "the torrc describes a %s too: chive config import --role %s\n", r.name, r.name)
			}
		}
		if strict && lost.count > 0 {
			return fault.New(fault.Config, "%s: with --strict, nothing is written, because lines would be left out or changed: %d", args[0], lost.count)
		}
		if file != "" {
			err = fault.Wrap(fault.Local, atomicfile.Write(file, text, mode))
		} else {
			_, err = c.OutOrStdout().Write(text)
		}
		if err == nil && lost.count > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "lines that are left out or changed: %d (exit code %d)\n", lost.count, exitLeftOut)
			return ExitError{exitLeftOut}
		}
		return err
	}
	return c
}
