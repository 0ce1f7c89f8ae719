package main

import (
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/deploy"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
)

// Where machines are.
const (
	toNetns   = "netns"
	toSSH     = "ssh"
	toCompose = "compose"
	toK8s     = "k8s"
)

// export writes what runs an inventory in containers, and says what the next command is.
func export(c *cobra.Command, e *deploy.Export, to, runner string) error {
	if runner != "" {
		return fault.New(fault.Config, "--runner needs --to netns or --to ssh")
	}
	write, name := e.Compose, deploy.ComposeName
	if to == toK8s {
		write, name = e.Kubernetes, deploy.KubernetesName
	}
	next, err := write()
	if err != nil {
		return err
	}
	return cli.Printf(c, "wrote %s\nnext, in %s: %s\nand then: %s\n", filepath.Join(e.Out, name), e.Out, next, filepath.Join(e.Out, deploy.ReadmeName))
}

// deployFiguresCommand draws results that were fetched from containers.
func deployFiguresCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "figures DIR",
		Short: "Draw the figures of a deployment's results",
		Long: "Draw the figures of a deployment's results (report.json, samples.csv and metrics.csv) into their directory, and print\n" +
			"the report. It fails if not all circuits were built.",
		Example: "  chivelab deploy figures results",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := deploy.ReadReport(args[0])
			if err != nil {
				return err
			}
			return tellDeployment(c, r, args[0], nil)
		},
	}
}

// deployHealthyCommand asks beside a node whether that serves, for the health checks of containers.
func deployHealthyCommand() *cobra.Command {
	var metricsAddr, file string
	c := &cobra.Command{Use: "healthy", Short: "Tell whether a node answers for metrics, or has written a file", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if (metricsAddr == "") == (file == "") {
				return fault.New(fault.Config, "give --metrics or --file")
			}
			if file != "" {
				_, err := os.Stat(file)
				return fault.Wrap(fault.Local, err)
			}
			at, err := netip.ParseAddrPort(metricsAddr)
			if err != nil {
				return fault.New(fault.Config, "--metrics: %w", err)
			}
			return deploy.Healthy(c.Context(), at)
		}}
	c.Flags().StringVar(&metricsAddr, "metrics", "", "`ADDR` of /metrics")
	c.Flags().StringVar(&file, "file", "", "`FILE` that must be there")
	return c
}

// deployResultsCommand brings results out of containers, which have no other program.
func deployResultsCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "results NAME...", Short: "Print files of results as a tar archive", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return deploy.WriteResults(c.OutOrStdout(), dir, args) }}
	c.Flags().StringVar(&dir, "dir", "", "`DIR` of the results")
	return c
}
