package manual

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/options"
)

// Flag is what a page says of a flag.
type Flag struct {
	Name, Short string
	Value       string // what its value is called; empty: it has none
	List        string // how more than one is given; empty: one is all
	Preset      string // the default value, or what none stands for
	Limits      string // the least and the greatest value
	Live        bool
	Help        string
}

// Group is flags under a heading.
type Group struct {
	Title string
	Flags []Flag
	Rows  bool // they are options, which a file may have too
}

// Groups returns a command's flags, in the order of --help.
func Groups(c *cobra.Command) []Group {
	var all []Group
	c.Flags().SortFlags = false
	c.PersistentFlags().SortFlags = false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		out := Flag{Name: f.Name, Short: f.Shorthand, Preset: f.DefValue}
		out.Value, out.Help = pflag.UnquoteUsage(f)
		g := Group{Title: "Flags"}
		if v, ok := f.Value.(*options.Value); ok {
			g = Group{Title: v.Group, Rows: true}
			out.Live, out.Limits, out.Preset = v.Live, v.Limits(), cmp.Or(v.Zero, v.Default)
			_, out.Help = pflag.UnquoteUsage(&pflag.Flag{Usage: v.Help, Value: v})
			switch {
			case v.Lines:
				out.List = "one each time"
			case v.Type() == "stringSlice", v.Type() == "stringToInt":
				out.List = "several, between commas"
			case v.Type() == "text" && v.Zero == "":
				out.Preset = strings.ToLower(f.DefValue)
			}
		}
		switch out.Preset {
		case "false", "0", "[]", "0s":
			out.Preset = ""
		}
		for i := range all {
			if all[i].Title == g.Title {
				all[i].Flags = append(all[i].Flags, out)
				return
			}
		}
		g.Flags = []Flag{out}
		all = append(all, g)
	})
	return all
}

// Walk calls f for a command and those below it that --help shows.
func Walk(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		Walk(sub, f)
	}
}
