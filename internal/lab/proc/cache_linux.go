package proc

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
)

// Uncache has the kernel drop a program's file from its cache, so that processes started
// from now on map what an installed program maps after a boot. The kernel keeps a file that
// was just written in pieces of up to 2 MiB, and counts each whole piece to the memory of a
// process that uses one byte of it. Pieces that a process has mapped now stay.
func Uncache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // only what is on the disk can be dropped
		return fault.Wrap(fault.Local, err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fault.New(fault.Local, "%s: fadvise: %w", path, err)
	}
	return nil
}
