package cli

import (
	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
)

// getCommand downloads one URL with a new client.
func getCommand() *cobra.Command {
	var o daemon.GetOptions
	c := &cobra.Command{
		Use:   "get URL",
		Short: "Download a URL through the network",
		Long: "Download a URL through the network, with a client of its own: no proxy needs to run, but the data\n" +
			"directory must not be in use by one.",
		Example: "  chive get https://check.torproject.org/api/ip",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringVarP(&o.Out, "output", "o", "", "`FILE` to write to, instead of standard output")
	c.Flags().StringArrayVarP(&o.Headers, "header", "H", nil, "header `NAME: VALUE` to send; may be repeated")
	s := daemon.NewClientSettings()
	load := bind(c, s)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := load(); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		cfg, err := s.ClientConfig(c.ErrOrStderr())
		if err != nil {
			return err
		}
		client, err := chive.New(cfg)
		if err != nil {
			return err
		}
		defer func() {
			if cerr := client.Close(); err == nil {
				err = cerr
			}
		}()
		o.URL, o.Stdout, o.Dial = args[0], c.OutOrStdout(), client.DialContext
		return daemon.Get(c.Context(), o)
	}
	return c
}
