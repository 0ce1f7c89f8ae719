//go:build !windows

package cli

import (
	"os"

	"github.com/spf13/cobra"
)

// systemCommands returns commands that only some systems have.
func systemCommands() []*cobra.Command { return nil }

// runManaged runs a node under the system's service manager, if that started it and
// sends requests in another way than by signals.
func runManaged(func(hangup, stop <-chan os.Signal) error) (managed bool, err error) {
	return false, nil
}
