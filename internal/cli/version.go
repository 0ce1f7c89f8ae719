package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/version"
)

// versionCommand prints the version and how the program was built.
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
