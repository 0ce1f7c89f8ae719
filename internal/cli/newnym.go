package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
)

// newnymCommand asks a running client for a new identity.
func newnymCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "newnym",
		Short: "Give a running proxy a new identity: new connections use new circuits",
		Long: `Give a running proxy or onion service a new identity, as C tor's signal NEWNYM: connections from now on use new
circuits, and descriptors of onion services are fetched again. Open connections go on as they are. The guards stay, and
what programs tell about themselves does: close their connections and forget their cookies, too.

There is one new identity in 10 seconds at most; the command waits until it is possible.`,
		Example: "  chive newnym",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				var err error
				if dir, err = chive.DefaultDataDir(); err != nil {
					return err
				}
			}
			for {
				wait, err := daemon.NewIdentity(c.Context(), dir)
				if err != nil {
					return err
				}
				if wait == 0 {
					_, err := fmt.Fprintln(c.OutOrStdout(), "new identity: new connections use new circuits, and open ones go on")
					return err
				}
				select {
				case <-time.After(wait):
				case <-c.Context().Done():
					return c.Context().Err()
				}
			}
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the client's data `DIR` (default $XDG_STATE_HOME/chive)")
	return c
}
