// Package cli is the command line of chive: each subcommand has its own file
// here, and other packages do the work. Command chivelab has these commands too,
// and adds its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/fetch"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/plugin"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/version"
)

// Main runs a program's command line, and ends the process. Ctrl-C, SIGTERM and the signals also end
// the context of the command. A second one ends the process, wherever the command waits.
func Main(root *cobra.Command, also ...os.Signal) {
	insideNamespace()
	ctx, stop := signal.NotifyContext(context.Background(), append(also, os.Interrupt, syscall.SIGTERM)...)
	defer stop()
	context.AfterFunc(ctx, panics.Contain(nil, nil, stop)) // so the next one does what the system does with it
	if len(os.Args) == 1 && ptspec.Managed(os.Getenv) {
		// Tor launched this as a pluggable transport and reads stdout.
		if err := plugin.Run(ctx, plugin.Config{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Version: version.String()}); err != nil || panics.Err() != nil {
			os.Exit(exitFailed)
		}
		return
	}
	err := execute(ctx, root, os.Args[1:])
	if err == nil {
		err = panics.Err()
	}
	if err != nil {
		var other ExitError
		if !errors.As(err, &other) { // that program has already written its error
			command.Complain(os.Stderr, root.Name(), err)
		}
		os.Exit(exitCode(err))
	}
}

// takesTime is the annotation of commands that put things in order after a signal, for as long as
// that takes.
const takesTime = "chive: takes time to end"

// TakesTime lets a command take its time to end after the first signal: it must watch its context.
func TakesTime(c *cobra.Command) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[takesTime] = ""
	return c
}

// execute runs a command line. Once ctx has ended, a command has maxCut to end, too: it may wait
// for something that no context ends, such as a pipe.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	run := func() error {
		var help error
		if err := root.ExecuteContext(context.WithValue(ctx, helpKey{}, &help)); err != nil {
			return err
		}
		return help
	}
	if c, _, err := root.Find(args); err == nil {
		if _, ok := c.Annotations[takesTime]; ok {
			return run()
		}
	}
	ended, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, panics.Contain(nil, nil, func() {
		select {
		case <-time.After(maxCut):
			cancel(context.Cause(ctx))
		case <-ended.Done():
		}
	}))()
	return interruptible(ended, run)
}

// Exit codes: a mistake in arguments or settings has its own code, after which a
// supervisor need not start the process again.
const (
	exitFailed  = 1
	exitMistake = 2
	exitKilled  = 3 // told twice to stop: connections were cut
	exitLeftOut = 4 // chive config import: the file is written, and settings are left out or changed
	exitServer  = 8 // chive get: a server answered with an error; wget has the same code
)

func exitCode(err error) int {
	var other ExitError
	if errors.As(err, &other) {
		return other.Code
	}
	if coded, ok := errors.AsType[codedError](err); ok && !fault.Is(err, fault.Config) {
		return coded.code
	}
	switch {
	case errors.Is(err, daemon.ErrKilled):
		return exitKilled
	case fault.Is(err, fault.Config):
		return exitMistake
	case fetch.ServersOnly(err):
		return exitServer
	}
	return exitFailed
}

// ExitError is the error of a command that ran another program, or that has said itself what
// is wrong: the process exits with the code, and writes nothing more.
type ExitError struct{ Code int }

// codedError is an error for which the process has an exit code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Chive returns the command line of the program chive. If the first of args is the name of
// a command, only that one is made: the options of all of them take a quarter of a
// megabyte, which a process that runs for months would hold.
func Chive(args ...string) *cobra.Command {
	made := Commands
	if len(args) > 0 {
		if i := slices.IndexFunc(subcommands, func(c subcommand) bool { return c.name == args[0] }); i >= 0 {
			made = func() []*cobra.Command { return []*cobra.Command{subcommands[i].make()} }
		}
	}
	root := Root("chive", "Onion routing in one binary", made()...)
	root.AddCommand(elsewhere("lab", "chivelab up, chivelab run"), elsewhere("bench", "chivelab bench"))
	return root
}

// Commands returns chive's commands, new ones each time.
func Commands() []*cobra.Command {
	all := make([]*cobra.Command, 0, len(subcommands))
	for _, c := range subcommands {
		all = append(all, c.make())
	}
	return append(all, systemCommands()...)
}

// subcommand is a command of chive that all systems have.
type subcommand struct {
	name string
	make func() *cobra.Command
}

var subcommands = []subcommand{
	{"proxy", proxyCommand}, {"get", getCommand}, {"exec", execCommand}, {"onion", onionCommand}, {"relay", relayCommand},
	{"authority", authorityCommand}, {"keys", keysCommand}, {"fte", fteCommand}, {"status", statusCommand},
	{"newnym", newnymCommand}, {"tor", torCommand}, {"network", networkCommand}, {"config", configCommand}, {"version", versionCommand},
}

// elsewhere returns a command that names the program which now has it.
func elsewhere(name, where string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fault.New(fault.Config, "the laboratory is a program of its own: %s", where)
		},
	}
}

// Root returns the root command of a program with commands.
func Root(name, short string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: name, Short: short, Version: version.String()}
	root.AddCommand(commands...)
	groupFlags(root)
	command.Prepare(root)
	return root
}
