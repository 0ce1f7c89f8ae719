package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
)

// checkEarly has the commands of the laboratory refuse what cannot be meant before they start a
// network, which takes long.
func checkEarly(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			var err error
			c.Flags().Visit(func(f *pflag.Flag) {
				if err == nil {
					err = early(f)
				}
			})
			if err != nil {
				return err
			}
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		checkEarly(sub)
	}
}

// early returns what is wrong with the value of a flag, as far as its kind tells.
func early(f *pflag.Flag) error {
	text := f.Value.String()
	name, _ := pflag.UnquoteUsage(f)
	switch f.Value.Type() {
	case "int", "int64", "float64", "duration", "intSlice":
		for _, n := range strings.Split(strings.Trim(text, "[]"), ",") {
			if strings.HasPrefix(n, "-") {
				return fault.New(fault.Config, "--%s: %s is negative", f.Name, n)
			}
		}
	}
	switch {
	case text == "":
	case f.Name == "socks":
		if err := socks.CheckAddr(text); err != nil {
			return fault.New(fault.Config, "--socks: %w", err)
		}
	case name == "PATH":
		if _, err := exec.LookPath(text); errors.Is(err, exec.ErrNotFound) {
			return fault.New(fault.Config, "--%s: there is no program %q in PATH", f.Name, text)
		} else if err != nil {
			return fault.New(fault.Config, "--%s: %s is no program that can be run: %w", f.Name, text, fault.Why(err))
		}
	case name == "DIR":
		if st, err := os.Stat(text); err == nil && !st.IsDir() {
			return fault.New(fault.Config, "--%s: %s is no directory", f.Name, text)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) { // which is made
			return fault.New(fault.Config, "--%s: %s: %w", f.Name, text, fault.Why(err))
		}
	}
	return nil
}
