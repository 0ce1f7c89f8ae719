package main

import (
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/fault"
)

// profiling gives every command the hidden flag --cpu-profile. Only the laboratory has it: the
// code that writes profiles would make chive larger by a hundred kilobytes.
func profiling(root *cobra.Command) {
	var name string
	root.PersistentFlags().StringVar(&name, "cpu-profile", "", "write a CPU profile of the whole run to `FILE`")
	_ = root.PersistentFlags().MarkHidden("cpu-profile") // it fails only for a flag that is not there
	var f *os.File
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		if name == "" {
			return nil
		}
		if f, err = os.Create(name); err != nil {
			return fault.New(fault.Local, "CPU profile: %w", err)
		}
		return fault.Wrap(fault.Local, pprof.StartCPUProfile(f))
	}
	root.PersistentPostRunE = func(*cobra.Command, []string) error {
		if f == nil {
			return nil
		}
		pprof.StopCPUProfile()
		return fault.Wrap(fault.Local, f.Close())
	}
}
