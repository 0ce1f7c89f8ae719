//go:build unix

package tord

import (
	"syscall"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
)

// descriptorLimit says how many files the process may have open.
func descriptorLimit(*query) (control.Answer, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "the system does not say: %v", err)
	}
	return number(uint64(l.Cur))
}
