//go:build !linux

package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

func insideNamespace() {}

// runInNamespace fails: only Linux has network namespaces.
func runInNamespace(context.Context, *program, opener) (int, error) {
	return 0, fault.New(fault.Config, "the program was not started: %s gives a program no network of its own, as Linux does. "+
		"--no-namespace sets variables for programs that look for a proxy, and guarantees nothing", runtime.GOOS)
}

// passSignals returns the signals that a program gets. A terminal sends those that the user types
// to the program itself.
func passSignals() (<-chan os.Signal, func()) {
	passed, typed := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(passed, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(typed, os.Interrupt)
	return passed, func() { signal.Stop(passed); signal.Stop(typed) }
}

func exitCodeOf(s *os.ProcessState) int { return s.ExitCode() }
