package cli

import (
	"github.com/chivenet/chive"
	"github.com/spf13/cobra"
)

// networkCommand works on network files.
func networkCommand() *cobra.Command {
	c := &cobra.Command{Use: "network", Short: "Work with network files", Args: cobra.NoArgs}
	var name string
	imp := &cobra.Command{
		Use:   "import TORRC",
		Short: "Print a network file made from a C tor configuration",
		Long: "Print a network file made from the DirAuthority, FallbackDir and TestingTorNetwork lines of a C tor\n" +
			"configuration. Other lines are passed over: \"chive config import\" translates them.",
		Example: "  chive network import /etc/tor/torrc > lab.toml",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := chive.ImportTorrc(name, args[0])
			if err != nil {
				return err
			}
			return printNetwork(c, n)
		},
	}
	imp.Flags().StringVar(&name, "name", "imported", "`NAME` of the network")
	public := &cobra.Command{
		Use:   "public",
		Short: "Print the public network's file, as it is built in",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return printNetwork(c, chive.PublicNetwork()) },
	}
	c.AddCommand(imp, public)
	return c
}

func printNetwork(c *cobra.Command, n *chive.Network) error {
	text, err := n.MarshalText()
	if err != nil {
		return err
	}
	_, err = c.OutOrStdout().Write(text)
	return err
}
