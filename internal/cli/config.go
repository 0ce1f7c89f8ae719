package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
)

// configCommand works on configuration files.
func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Work with configuration files", Args: cobra.NoArgs}
	check := checkCommand("check", "a proxy", "The network file is read too;\nno port is opened.", daemon.NewProxySettings())
	var ports []string
	onion := checkCommand("onion", "a host of onion services", "The network file is read too;\nno port is opened, and no key is made.", daemon.NewOnionSettings(&ports))
	onion.Use += " [PORT=TARGET...]"
	check.AddCommand(
		withArgs(onion, &ports),
		checkCommand("relay", "a relay", "The files that they name are read too;\nno port is opened, and no key is made.", daemon.NewRelaySettings()),
		checkCommand("authority", "an authority", "The files that they name are read too;\nno port is opened, and keys are not looked at.", daemon.NewAuthoritySettings()),
	)
	c.AddCommand(check, importCommand())
	return c
}

// checkCommand checks the settings of a role.
func checkCommand(name, role, more string, s *daemon.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   name,
		Short: "Say whether settings of " + role + " are right",
		Long:  "Say whether " + role + " would accept a configuration file and flags. " + more,
		Args:  cobra.NoArgs,
	}
	if name != "check" {
		c.Example = "  chive config check " + name + " --config /etc/chive-" + name + ".toml"
	} else {
		c.Example = "  chive config check --config /etc/chive.toml"
	}
	load := bind(c, s)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := load(c.Context()); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.OutOrStdout(), "ok")
		return err
	}
	return c
}
