// Command chive is onion routing in one binary: see chive help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/pt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 1 && pt.Managed(os.Getenv) {
		// Tor launched this as a pluggable transport and reads stdout.
		if err := pt.Run(ctx, pt.Config{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Version: version()}); err != nil {
			os.Exit(1)
		}
		return
	}
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chive:", err)
		os.Exit(1)
	}
}

// rootCommand is chive itself, with every subcommand.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "chive",
		Short:         "Onion routing in one binary",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(fteCommand())
	return root
}

// version is the module's version as the build recorded it.
func version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "(devel)"
}
