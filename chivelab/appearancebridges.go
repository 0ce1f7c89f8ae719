package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/internal/fault"
)

// appearanceBridgesCommand compares clients of a bridge behind obfs4, and of one that is dead.
func appearanceBridgesCommand() *cobra.Command {
	var both pair
	var proxy, jsonFile string
	var p appearance.BridgePlan
	cmd := &cobra.Command{
		Use:   "bridges",
		Short: "Compare what a wire shows of Chive's client behind obfs4, and at a dead bridge, with C tor's",
		Long: `Start a network with a bridge behind obfs4proxy. Clients of both programs use it by the same obfs4proxy, and others have a bridge alone that
resets each connection. A recorder of TCP notes connections, sizes and times. It fails if a row differs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := both.find(); err != nil {
				return err
			}
			if p.Proxy, err = exec.LookPath(proxy); err != nil {
				return fault.New(fault.Config, "--obfs4proxy: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), appearanceTime+max(p.Idle, p.Dead))
			defer cancel()
			p.Tor, p.Subjects = both.tor, both.subjects("first", "second")
			rows, err := appearance.Bridges(ctx, p)
			if err != nil {
				return err
			}
			return tellRows(cmd, jsonFile, rows, nil)
		},
	}
	both.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&proxy, "obfs4proxy", "obfs4proxy", "`PATH` of obfs4proxy")
	f.IntVar(&p.Clients, "clients", 3, "`NUMBER` of clients of each program and each bridge")
	f.DurationVar(&p.Idle, "idle", 30*time.Second, "`TIME` between the first connection and the first use")
	f.DurationVar(&p.Dead, "dead", 2*time.Minute, "`TIME` with the dead bridge")
	f.StringVar(&jsonFile, "json", "", "write the rows to `FILE`, as JSON")
	f.SortFlags = false
	return cmd
}
