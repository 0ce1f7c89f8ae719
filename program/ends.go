package program

import (
	"os"
	"os/signal"
	"syscall"
)

// Ends returns the signals besides Ctrl-C and SIGTERM that should end a program which has children
// and temporary files: the hangup of its terminal, unless it was started to survive that (nohup).
// From this call on, a write to a pipe that nobody reads is an error, and does not kill the program.
func Ends() []os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // not ignored: children would inherit that
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	return []os.Signal{syscall.SIGHUP}
}
