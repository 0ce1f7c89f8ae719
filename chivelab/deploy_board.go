package main

import (
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/deploy"
	"github.com/chivenet/chive/internal/fault"
)

// boardCommands are what "chivelab deploy --to ssh" runs on boards, beside the roles' programs.
func boardCommands() []*cobra.Command {
	return []*cobra.Command{boardCheckCommand(), boardStartCommand(), boardKeepCommand(), boardAwaitCommand()}
}

func boardCheckCommand() *cobra.Command {
	var listen []string
	c := &cobra.Command{Use: "check", Short: "Tell whether this board can play its role", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var at []netip.AddrPort
			for _, s := range listen {
				a, err := netip.ParseAddrPort(s)
				if err != nil {
					return fault.New(fault.Config, "--listen: %w", err)
				}
				at = append(at, a)
			}
			return deploy.CheckBoard(at)
		}}
	c.Flags().StringArrayVar(&listen, "listen", nil, "`IP:PORT` that a node will listen at; may be repeated")
	return c
}

func boardStartCommand() *cobra.Command {
	var dir, unit, self string
	c := &cobra.Command{Use: "start -- PROGRAM ARGUMENTS", Short: "Start a program that goes on after this one", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return deploy.Start(c.Context(), dir, unit, strings.Fields(self), args)
		}}
	c.Flags().StringVar(&dir, "dir", "", "`DIR` of the node")
	c.Flags().StringVar(&unit, "unit", "", "`NAME` of systemd's unit")
	c.Flags().StringVar(&self, "self", "", "`COMMAND` that is this program, with an emulator before it where it needs one")
	return c
}

func boardKeepCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "keep -- PROGRAM ARGUMENTS", Short: "Run a program, and tell how it ended", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return deploy.Keep(c.Context(), dir, args) }}
	c.Flags().StringVar(&dir, "dir", "", "`DIR` of the node")
	return c
}

func boardAwaitCommand() *cobra.Command {
	var dir string
	var ready bool
	c := &cobra.Command{Use: "await", Short: "Wait for the end of a program, or of the input", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return deploy.Await(c.Context(), dir, ready, c.InOrStdin())
		}}
	c.Flags().StringVar(&dir, "dir", "", "`DIR` of the node")
	c.Flags().BoolVar(&ready, "ready", false, "wait until it is ready, too")
	return c
}
