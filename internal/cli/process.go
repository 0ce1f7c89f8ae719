package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/tord"
)

// processCommand gives a command the options of a node, and runs the node as a process. trial is the command
// that says whether it would start.
func processCommand(c *cobra.Command, s *daemon.Settings, trial ...string) *cobra.Command {
	TakesTime(c).Args = cobra.NoArgs
	load := bind(c, s)
	c.RunE = func(c *cobra.Command, _ []string) error {
		outliveReaders()
		next, err := successor(c, trial)
		if err != nil {
			return err
		}
		upgrade := make(chan os.Signal, 1)
		run := func(hangup, stop <-chan os.Signal) error {
			if err := load(c.Context()); c.Context().Err() != nil {
				return nil // told to stop, as it may be at any later time
			} else if err != nil {
				return err
			}
			p := daemon.Process{Settings: s, Out: c.OutOrStdout(), Err: c.ErrOrStderr(), Hangup: hangup, Stop: stop, Upgrade: upgrade, Successor: next, Controllers: tord.NewNative()}
			return p.Run(context.WithoutCancel(c.Context()))
		}
		if managed, err := runManaged(run); managed {
			return err
		}
		// These signals drain the node; the context of main would end it at once.
		hangup, stop := make(chan os.Signal, 1), make(chan os.Signal, 2)
		signal.Notify(hangup, syscall.SIGHUP)
		signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
		notifyUpgrade(upgrade)
		go panics.Contain(nil, nil, endAfterSecond)()
		return run(hangup, stop)
	}
	return c
}

// successor is the program that takes over at an upgrade: the file that runs now, or what has taken its place
// there, with the same command line.
func successor(c *cobra.Command, trial []string) (daemon.Successor, error) {
	path, err := os.Executable()
	if err != nil {
		path = "" // without /proc, for example: then there is no upgrade
	}
	next := daemon.Successor{Path: path, Args: os.Args, Trial: trial}
	if len(trial) > 1 { // it takes the same options
		_, rest, err := c.Root().Find(os.Args[1:])
		if err != nil {
			return next, err
		}
		next.Trial = append(slices.Clone(trial), rest...)
	}
	return next, nil
}

// maxCut is how long a node has, after it was told twice to stop, to cut what is open, and how long
// another command has after it was told once.
const maxCut = 3 * time.Second

// endAfterSecond ends the process some time after the second signal to stop, if the node has
// not ended by itself: it may wait for a file or a port that it was told to open.
func endAfterSecond() {
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	<-stop
	time.Sleep(maxCut)
	os.Exit(exitKilled)
}

// outliveReaders lets the process go on when nobody reads its log or its lines any more:
// otherwise the next one would end it at once. To ignore the signal would do so for the
// programs, too, that the process starts.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// bind gives a command the settings' flags and --config. The function that it returns reads
// the file once the command line has been parsed, unless ctx ends first.
func bind(c *cobra.Command, s *daemon.Settings) (load func(ctx context.Context) error) {
	s.AddFlags(c.Flags())
	var file string
	c.Flags().StringVar(&file, "config", "", "configuration `FILE`: TOML with the flags' names; a flag wins over it")
	return func(ctx context.Context) error {
		if file == "" {
			return nil
		}
		return interruptible(ctx, func() error { return s.Load(file) })
	}
}

// interruptible runs what may wait for files, for example for a pipe to which nobody writes, or
// take long, and returns when it has ended or ctx has. In the second case, f goes on until the
// process ends.
func interruptible(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer panics.Recover(nil, func(err error) { done <- err })
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.New(fault.Closed, "stopped")
	}
}
