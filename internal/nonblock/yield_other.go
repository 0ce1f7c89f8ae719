//go:build !linux

package nonblock

// Yield offers the processor to another process, where that can be done.
func Yield() {}
