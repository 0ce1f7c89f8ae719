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
		Short: "Print the version, and how old the addresses of the public network in it are",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "chive %s %s %s/%s\naddresses of the public network: %s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH, daemon.ListOfNetwork())
			return err
		},
	}
}
