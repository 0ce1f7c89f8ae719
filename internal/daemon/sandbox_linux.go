package daemon

import (
	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/chivenet/chive/internal/fault"
)

// landlockABI is the version of the kernel's Landlock; 0: it has none.
func landlockABI() int {
	v, err := syscall.LandlockGetABIVersion()
	if err != nil || v < 0 {
		return 0
	}
	return v
}

// landlock confines every thread of the process.
func (c confinement) landlock() error {
	files, dirs := existing(c.read)
	err := landlock.V5.BestEffort().RestrictPaths(landlock.RWDirs(c.write...), landlock.ROFiles(files...), landlock.RODirs(dirs...), landlock.RWFiles("/dev/null").IgnoreIfMissing())
	if err != nil {
		return fault.New(fault.Local, "sandbox: %w", err)
	}
	return nil
}
