package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/spf13/cobra"
)

// statusCommand asks a running proxy, relay or authority for its status.
func statusCommand() *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what a running proxy, relay or authority is doing",
		Long: "Show what a running proxy, relay or authority is doing: a proxy's bootstrap, directory, guards and onion services,\n" +
			"a relay's flags in the consensus, circuits and keys, an authority's relays and next vote, and their traffic. It\n" +
			"asks through a socket in the data directory, which only the program's user can open.",
		Example: "  chive status\n  chive status --json --data-dir /var/lib/chive-relay",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := readStatus(c.Context(), dir)
			if err != nil {
				return err
			}
			if !asJSON {
				r.Print(c.OutOrStdout(), time.Now())
				return nil
			}
			var b bytes.Buffer
			if err := json.Indent(&b, bytes.TrimSpace(r.Text), "", "  "); err != nil {
				return err
			}
			b.WriteByte('\n')
			_, err = b.WriteTo(c.OutOrStdout())
			return err
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the program's data `DIR` (default $XDG_STATE_HOME/chive, of a proxy, and then its directory relay)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// readStatus asks the program that uses a data directory; without one, the
// program that uses a default directory.
func readStatus(ctx context.Context, dir string) (*daemon.Report, error) {
	if dir != "" {
		return daemon.ReadStatus(ctx, dir)
	}
	dir, err := chive.DefaultDataDir()
	if err != nil {
		return nil, err
	}
	r, err := daemon.ReadStatus(ctx, dir)
	if err != nil {
		if r, relayErr := daemon.ReadStatus(ctx, filepath.Join(dir, "relay")); relayErr == nil {
			return r, nil
		}
	}
	return r, err
}
