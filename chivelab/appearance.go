package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/version"
	"github.com/chivenet/chive/lab"
)

// appearanceTime bounds a run: the script takes two minutes after the idle time.
const appearanceTime = 5 * time.Minute

// appearanceCommand compares what Chive's client and C tor's show.
func appearanceCommand() *cobra.Command {
	var tor, page, jsonFile string
	var clients int
	var idle, delay time.Duration
	var more, both []string
	var program string
	var six bool
	cmd := &cobra.Command{
		Use:   "appearance",
		Short: "Compare what Chive's client shows to a wire, a guard and other relays with what C tor's does",
		Long: `Start a network with authorities of C tor and relays that record. Clients of C tor and of Chive do the same in it:
they connect, rest, fetch, upload, ask an onion service, ask for new circuits, end, and start again. Some go by bridges, and some
have an onion service, which is visited. Then each row of a
table compares one feature of what was seen, by a rule of its own.

It fails if there is a difference that is not known, or a known one is gone. With --tor-option the second program is C tor,
too, with further lines of its torrc: without any difference the comparison sees nothing.`,
		Example: "  chivelab appearance --write docs/appearance.md\n  chivelab appearance --chive /usr/bin/chive\n  chivelab appearance --tor-option 'ConnectionPadding 0'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := lab.FindTor(tor)
			if err != nil {
				return err
			}
			self, err := child.Self()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), appearanceTime+idle)
			defer cancel()
			second := appearance.Subject{Name: "second", Command: []string{self, "tor"}, Chive: true}
			if program != "" {
				second.Command[0] = program
			}
			allowed := map[string]appearance.Known{}
			v, err := appearance.TorVersion(ctx, path)
			if err != nil {
				return err
			}
			v.Chive = version.String()
			if len(more) > 0 {
				second = appearance.Subject{Name: "second", Command: []string{path}, Torrc: more}
			} else if allowed, err = appearance.Allowed(v); err != nil {
				return err
			}
			if six && !ctor.HasIPv6() {
				return fault.New(fault.Local, "--ipv6-only: this machine has no IPv6 loopback")
			}
			second.Torrc, second.IPv6 = append(second.Torrc, both...), six
			s, err := appearance.Run(ctx, appearance.Plan{Tor: path, Clients: clients, Idle: idle, Delay: delay,
				Subjects: []appearance.Subject{{Name: "first", Command: []string{path}, Torrc: both, IPv6: six}, second}})
			if err != nil {
				return err
			}
			rows := s.Compare("first", "second")
			err = tell(jsonFile, rows, func() error { return cli.Printf(cmd, "%s", appearanceTable(rows)) })
			if page != "" {
				err = errors.Join(err, fault.Wrap(fault.Local, atomicfile.Write(page, []byte(appearance.Page(rows, allowed, v, clients)), 0o644)))
			}
			if err != nil {
				return err
			}
			if wrong := appearance.Judge(rows, allowed); len(wrong) > 0 {
				return fault.New(fault.Local, "%s", strings.Join(wrong, "\n"))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.IntVar(&clients, "clients", 12, "`NUMBER` of clients of each program")
	f.DurationVar(&idle, "idle", 45*time.Second, "`TIME` between the first connection and the first use")
	f.DurationVar(&delay, "delay", 0, "`TIME` that each link between a client and a relay takes, one way")
	f.StringArrayVar(&more, "tor-option", nil, "`LINE` of the torrc of a C tor that is compared instead of Chive; may be repeated")
	f.StringArrayVar(&both, "option", nil, "`LINE` of the torrc of both programs, such as 'ConnectionPadding 0'; may be repeated")
	f.BoolVar(&six, "ipv6-only", false, "all clients connect over IPv6 alone; half of the relays have it")
	f.StringVar(&program, "chive", "", "`PATH` of another chive, which is compared instead of this one")
	f.StringVar(&page, "write", "", "write the table as a page to `FILE`")
	f.StringVar(&jsonFile, "json", "", "write the rows to `FILE`, as JSON")
	f.SortFlags = false
	cmd.AddCommand(appearancePathsCommand(), appearanceAnswersCommand(), appearanceParamsCommand(), appearanceBridgesCommand(), appearanceDayCommand())
	return cmd
}

// appearanceTable is the table as text.
func appearanceTable(rows []appearance.Row) string {
	var b strings.Builder
	for _, r := range rows {
		verdict := "same"
		switch {
		case r.Unknown:
			verdict = "UNKNOWN"
		case r.Different:
			verdict = "DIFFERS"
		}
		fmt.Fprintf(&b, "%-8s %-24s %s\n", verdict, r.Name, r.What)
		if r.Different || r.Unknown {
			fmt.Fprintf(&b, "%8s first:  %s\n%8s second: %s\n", "", r.First, "", r.Second)
		}
	}
	return b.String()
}
