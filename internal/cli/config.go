package cli

import (
	"fmt"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configCommand works on configuration files.
func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Work with configuration files", Args: cobra.NoArgs}
	check := &cobra.Command{
		Use:   "check",
		Short: "Say whether a proxy would start with these settings",
		Long: "Say whether a proxy would accept a configuration file and flags. The network file is read too;\n" +
			"no port is opened.",
		Args: cobra.NoArgs,
	}
	load := settings(check.Flags(), true)
	check.RunE = func(c *cobra.Command, _ []string) error {
		s, err := load()
		if err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), "ok")
		return err
	}
	relay := &cobra.Command{
		Use:   "relay",
		Short: "Say whether a relay would start with these settings",
		Long: "Say whether a relay would accept a configuration file and flags. The files that they name are read too;\n" +
			"no port is opened, and no key is made.",
		Example: "  chive config check relay --config /etc/chive-relay.toml",
		Args:    cobra.NoArgs,
	}
	loadRelay := relaySettings(relay.Flags())
	relay.RunE = func(c *cobra.Command, _ []string) error {
		s, err := loadRelay()
		if err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), "ok")
		return err
	}
	check.AddCommand(relay)
	c.AddCommand(check)
	return c
}

// settings binds the settings' flags and --config, and returns a function
// that reads them once the command line has been parsed.
func settings(fs *pflag.FlagSet, doors bool) func() (*daemon.Settings, error) {
	var file string
	fs.StringVar(&file, "config", "", "configuration `FILE`: TOML with the flags' names; flags win")
	s := daemon.NewSettings(fs, doors)
	return func() (*daemon.Settings, error) {
		if file == "" {
			return s, nil
		}
		return s, s.LoadFile(file)
	}
}
