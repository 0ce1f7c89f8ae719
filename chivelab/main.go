// Command chivelab is the laboratory: whole onion networks on one machine, and
// measurements. See chivelab help. Each subcommand has a file of its own here;
// what they do is in the packages below lab.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/program"
)

func main() {
	root := rootCommand()
	var also []os.Signal
	if c, _, err := root.Find(os.Args[1:]); err == nil && !c.Hidden { // nodes go with their laboratory
		also = program.Ends()
	}
	cli.Main(root, also...)
}

// rootCommand is chivelab itself. It has chive's commands too, unlisted: they are
// the nodes of its networks, which are processes of this very program.
func rootCommand() *cobra.Command {
	root := cli.Root("chivelab", "Private onion networks and measurements", labUpCommand(), labRunCommand(), benchCommand(), linksCommand(), experimentCommand(), deployCommand(), cleanCommand(), appearanceCommand(), shadowCommand())
	leaveInOrder(root)
	checkEarly(root)
	profiling(root)
	for _, c := range cli.Commands() {
		c.Hidden = true
		root.AddCommand(c)
	}
	return root
}

// leaveInOrder lets the commands of the laboratory take their time to end: they stop what they
// have started, and remove its files.
func leaveInOrder(c *cobra.Command) {
	cli.TakesTime(c)
	for _, sub := range c.Commands() {
		leaveInOrder(sub)
	}
}
