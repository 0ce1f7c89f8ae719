package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
)

// appearancePathsCommand compares the relays that Chive's client and C tor's choose.
func appearancePathsCommand() *cobra.Command {
	var both pair
	var paths int
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "paths",
		Short: "Compare the relays that Chive's client chooses for its circuits with those that C tor's does",
		Long: `Start a network of twenty relays with weights from 1 to 20. A client of C tor and one of Chive build circuits there, as many as
--paths says, by one guard. Then Pearson's chi-squared says whether their exits, their middles, and their middles with each
exit are of one distribution. It fails if one is above the value that one of a thousand pairs exceeds by chance.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := both.find(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			tests, err := appearance.Paths(ctx, appearance.PathPlan{Tor: both.tor, Paths: paths, Subjects: both.subjects("C tor", "Chive")})
			if err != nil {
				return err
			}
			var wrong []string
			for i := range tests {
				if err := cli.Printf(cmd, "%v\n", &tests[i]); err != nil {
					return err
				}
				if tests[i].Different() {
					wrong = append(wrong, tests[i].What)
				}
			}
			if len(wrong) > 0 {
				return fault.New(fault.Local, "the two programs choose differently: %s", strings.Join(wrong, ", "))
			}
			return nil
		},
	}
	both.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&paths, "paths", 10_000, "`NUMBER` of circuits of each program")
	f.DurationVar(&limit, "time", 20*time.Minute, "`TIME` after which it gives up")
	f.SortFlags = false
	return cmd
}
