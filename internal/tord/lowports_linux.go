package tord

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const canKeepBinding = true

// keepBinding has change, which makes the process another user's, leave it the capability to open ports below 1024, and no other
// (capabilities(7)). Programs that it starts do not get it.
func keepBinding(change func() error) error {
	if err := inAllThreads(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	head := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of the thread that calls
	const bit = 1 << unix.CAP_NET_BIND_SERVICE
	sets := &[2]unix.CapUserData{{Effective: bit, Permitted: bit}}
	err := inAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(head)), uintptr(unsafe.Pointer(sets)))
	runtime.KeepAlive(head)
	runtime.KeepAlive(sets)
	if err != nil {
		return err
	}
	return inAllThreads(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 0)
}

// inAllThreads makes a system call in each thread: the kernel keeps capabilities for each. A program with C code in it cannot.
func inAllThreads(call, a, b uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, 0); errno != 0 {
		return errno
	}
	return nil
}
