//go:build unix && (!linux || race)

package nonblock

import "syscall"

// Available says whether this system supports calls that never wait.
const Available = true

// The race detector knows these functions and sees their order of events.
func read(fd uintptr, p []byte) (int, error)  { return syscall.Read(int(fd), p) }
func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
