//go:build !linux

package nonblock

// Yield does nothing on this system.
func Yield() {}
