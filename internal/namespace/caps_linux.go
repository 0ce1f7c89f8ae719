package namespace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that root's program has: over files, users and processes, as package
// managers need them. None is about networks, mounts or the kernel.
var kept = []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID}

// giveUp takes from this thread, and so from the program that it starts, every capability that
// an ordinary user does not have, for ever. Root keeps those of kept.
func giveUp() error {
	var keep uint64
	if os.Geteuid() == 0 {
		for _, c := range kept {
			keep |= 1 << c
		}
	}
	for c := range uint(64) {
		if keep&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err == unix.EINVAL {
			break // the kernel has no more
		} else if err != nil {
			return fmt.Errorf("give up capability %d: %w", c, err)
		}
	}
	low, high := uint32(keep), uint32(keep>>32)
	// Ambient ones go with the inheritable ones.
	data := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: 0}, {Effective: high, Permitted: high, Inheritable: 0}}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	// The other threads of this process keep theirs, and the memory is the same: without this, the program could
	// write into it through this thread. The program itself gets a new memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep other processes out of this one's memory: %w", err)
	}
	return nil
}
