package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/version"
)

// versionCommand says what was built, and with what.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "chive %s %s %s/%s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
