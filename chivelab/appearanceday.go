package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/internal/cli"
)

// appearanceDayCommand has what compares a day of clients in the simulator Shadow.
func appearanceDayCommand() *cobra.Command {
	c := &cobra.Command{Use: "day", Short: "Compare a day of Chive's clients with one of C tor's, in the simulator Shadow"}
	c.AddCommand(appearanceDayWriteCommand(), appearanceDayReadCommand(), appearanceDayNodeCommands()[0], appearanceDayNodeCommands()[1])
	return c
}

func appearanceDayWriteCommand() *cobra.Command {
	d := &appearance.Day{}
	var both pair
	c := &cobra.Command{
		Use:   "write DIR",
		Short: "Write the network of a day as a directory that Shadow simulates",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := both.find(); err != nil {
				return err
			}
			d.Tor, d.Lab, d.Subjects = both.tor, both.self, both.subjects("first", "second")
			if err := d.Write(args[0]); err != nil {
				return err
			}
			return cli.Printf(c, "next: (cd %s && shadow shadow.yaml > shadow.log) && chivelab appearance day read %s\n", args[0], args[0])
		},
	}
	both.flags(c)
	f := c.Flags()
	f.StringVar(&both.self, "program", "", "`PATH` of a chivelab that is dynamically linked (default: this program)")
	f.IntVar(&d.Clients, "clients", 4, "`NUMBER` of clients of each program that are idle, that fetch pages, and that have an onion service")
	f.DurationVar(&d.Before, "before", 25*time.Hour, "`TIME` until the clients start: after a day the authorities share randomness")
	f.DurationVar(&d.Time, "time", 24*time.Hour, "`TIME` that is recorded")
	f.Uint64Var(&d.Seed, "seed", 1, "`SEED` of what is drawn")
	f.SortFlags = false
	return c
}

func appearanceDayReadCommand() *cobra.Command {
	var jsonFile string
	c := &cobra.Command{
		Use:   "read DIR",
		Short: "Make the table of a day that Shadow has simulated",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			traces, err := appearance.ReadDay(args[0])
			if err != nil {
				return err
			}
			rows := appearance.CompareDay(traces, "first", "second")
			return tell(jsonFile, rows, func() error { return cli.Printf(c, "%s", appearanceTable(rows)) })
		},
	}
	c.Flags().StringVar(&jsonFile, "json", "", "write the rows to `FILE`, as JSON")
	return c
}

func appearanceDayNodeCommands() [2]*cobra.Command {
	relays := &cobra.Command{Use: "relays PLAN", Short: "Be the relays that record", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return appearance.DayRelays(c.Context(), args[0]) }}
	var at []time.Duration
	var target, service string
	user := &cobra.Command{Use: "user", Short: "Fetch pages", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return appearance.DayUser(c.Context(), at, target, service) }}
	user.Flags().DurationSliceVar(&at, "at", nil, "`TIMES` since the begin")
	user.Flags().StringVar(&target, "target", "", "`ADDR` of the server")
	user.Flags().StringVar(&service, "service", "", "`DIR` of an onion service that is asked instead")
	return [2]*cobra.Command{relays, user}
}
