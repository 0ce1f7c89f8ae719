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

// appearanceParamsCommand compares what running clients do when the parameters of the consensus change.
func appearanceParamsCommand() *cobra.Command {
	var both pair
	var jsonFile string
	var clients int
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "params",
		Short: "Compare what Chive's running client does when the consensus's parameters change with what C tor's does",
		Long: `Start a network whose authorities vote every 20 seconds, and clients of both programs. Twice the authorities change parameters of the consensus;
the clients fetch it when they would anyway, within two minutes, rest, and are used. It fails if a row differs and that is not known, or is
known and gone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := both.find(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			allowed := map[string]appearance.Known{}
			if !both.own {
				v, err := appearance.TorVersion(ctx, both.tor)
				if err != nil {
					return err
				}
				if allowed, err = appearance.Allowed(v); err != nil {
					return err
				}
			}
			rows, err := appearance.Params(ctx, appearance.ParamPlan{Tor: both.tor, Clients: clients, Subjects: both.subjects("first", "second")})
			if err != nil {
				return err
			}
			return tellRows(cmd, jsonFile, rows, allowed)
		},
	}
	both.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&clients, "clients", 3, "`NUMBER` of clients of each program")
	f.DurationVar(&limit, "time", 15*time.Minute, "`TIME` after which it gives up")
	f.StringVar(&jsonFile, "json", "", "write the rows to `FILE`, as JSON")
	f.SortFlags = false
	return cmd
}

// tellRows writes a table, and returns what is wrong with it.
func tellRows(cmd *cobra.Command, jsonFile string, rows []appearance.Row, allowed map[string]appearance.Known) error {
	if err := tell(jsonFile, rows, func() error { return cli.Printf(cmd, "%s", appearanceTable(rows)) }); err != nil {
		return err
	}
	if wrong := appearance.Judge(rows, allowed); len(wrong) > 0 {
		return fault.New(fault.Local, "%s", strings.Join(wrong, "\n"))
	}
	return nil
}
