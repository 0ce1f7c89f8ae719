package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/options"
)

// flag is what a page says of a flag.
type flag struct {
	name, short string
	value       string // what its value is called; empty: it has none
	list        string // how more than one is given; empty: one is all
	preset      string // the default value, or what none stands for
	limits      string // the least and the greatest value
	live        bool
	help        string
}

// group is flags under a heading.
type group struct {
	title string
	flags []flag
	rows  bool // they are options, which a file may have too
}

// groups returns a command's flags, in the order of --help.
func groups(c *cobra.Command) []group {
	var all []group
	c.Flags().SortFlags = false
	c.PersistentFlags().SortFlags = false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		out := flag{name: f.Name, short: f.Shorthand, preset: f.DefValue}
		out.value, out.help = pflag.UnquoteUsage(f)
		g := group{title: "Flags"}
		if v, ok := f.Value.(*options.Value); ok {
			g = group{title: v.Group, rows: true}
			out.live, out.limits, out.preset = v.Live, v.Limits(), cmp.Or(v.Zero, v.Default)
			_, out.help = pflag.UnquoteUsage(&pflag.Flag{Usage: v.Help, Value: v})
			switch {
			case v.Lines:
				out.list = "one each time"
			case v.Type() == "stringSlice", v.Type() == "stringToInt":
				out.list = "several, between commas"
			case v.Type() == "text" && v.Zero == "":
				out.preset = strings.ToLower(f.DefValue)
			}
		}
		switch out.preset {
		case "false", "0", "[]", "0s":
			out.preset = ""
		}
		for i := range all {
			if all[i].title == g.title {
				all[i].flags = append(all[i].flags, out)
				return
			}
		}
		g.flags = []flag{out}
		all = append(all, g)
	})
	return all
}

// walk calls f for a command and those below it that --help shows.
func walk(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		walk(sub, f)
	}
}
