//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyUpgrade has the signal for an upgrade sent to a channel.
func notifyUpgrade(to chan<- os.Signal) { signal.Notify(to, syscall.SIGUSR2) }
