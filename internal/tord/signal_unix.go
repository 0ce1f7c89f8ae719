//go:build unix

package tord

import (
	"os"
	"syscall"
)

// systemSignals are the signals of Unix alone, and what tor calls them.
var systemSignals = map[os.Signal]string{syscall.SIGUSR1: "DUMP", syscall.SIGUSR2: "DEBUG"}
