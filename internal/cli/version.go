package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/version"
)

// versionCommand prints the version, how the program was built, and which list of the public
// network it has.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, and how old the addresses of the public network in it are",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			commit := ""
			if known := version.Commit(); known != "" {
				commit = "commit " + known + "\n"
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "chive %s %s %s/%s\n%saddresses of the public network: %s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH, commit, daemon.ListOfNetwork())
			return err
		},
	}
}
