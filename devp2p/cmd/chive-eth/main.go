// Command chive-eth runs Ethereum's peer-to-peer protocol over onion services.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/commandline"
)

// rootCommand is chive-eth itself; each subcommand is a file of this package.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "chive-eth",
		Short: "Ethereum's peer-to-peer protocol over onion services",
		Long: "chive-eth connects Ethereum nodes through Tor's onion services: as a relay node of\n" +
			"its own, or beside a geth that already runs.",
		Version: program.Version(),
	}
	root.AddCommand(relayCommand(), sidecarCommand(), statusCommand(), nodesCommand(), keyCommand(), demoCommand(), benchCommand(), benchNodeCommand(), manualCommand())
	commandline.Prepare(root)
	return root
}

// manualCommand writes the manual pages, for packages: no other program has these commands.
func manualCommand() *cobra.Command {
	return &cobra.Command{
		Use: "manual DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return commandline.WriteManual(cmd.Root(), args[0]) },
	}
}

func main() {
	root := rootCommand()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if c, _, err := root.Find(os.Args[1:]); err == nil && !c.Hidden { // a measured node goes with its measurement
		ends = append(ends, program.Ends()...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		commandline.Complain(os.Stderr, "chive-eth", err)
		os.Exit(1)
	}
}
