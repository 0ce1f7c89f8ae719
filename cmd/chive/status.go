package main

import (
	"encoding/json"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/spf13/cobra"
)

// statusCommand asks a running proxy how it is.
func statusCommand() *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what a running proxy is doing",
		Long: "Show what a running proxy is doing: how far it has come, its directory, its guards and its traffic.\n" +
			"It asks the proxy through a socket in the data directory, which only the proxy's user can open.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				var err error
				if dir, err = chive.DefaultDataDir(); err != nil {
					return err
				}
			}
			st, err := daemon.ReadStatus(c.Context(), dir)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(st)
			}
			daemon.PrintStatus(c.OutOrStdout(), st, time.Now())
			return nil
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the proxy's data `DIR` (default $XDG_STATE_HOME/chive)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
